# The image of every service of docker-compose.yml; commands come from pipeline/work/commands.py (a test compares).
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ make bubblewrap libseccomp2 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /srv/factory
COPY requirements requirements
ARG TORCH_INDEX_URL=
RUN pip install --no-cache-dir torch==2.13.0 ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} \
    && pip install --no-cache-dir --require-hashes --no-deps -r requirements/lock.txt

COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e . -e adapters && pip check

RUN useradd --create-home factory && install -d -o factory -g factory /var/lib/factory
USER factory
ENV SPYRE_FACTORY_DATA_DIR=/var/lib/factory SPYRE_SIM_CACHE_DIR=/var/lib/factory/simulator
VOLUME /var/lib/factory
EXPOSE 8000
