# The image of every service of docker-compose.yml; commands come from pipeline/work/commands.py (a test compares).
# Its steps are the two scripts that .ci/run and `make setup` run.
FROM python:3.11-slim-bookworm

COPY requirements/system.sh /tmp/system.sh
RUN /tmp/system.sh run && rm -rf /var/lib/apt/lists/* /tmp/system.sh

RUN useradd --create-home factory && install -d -o factory -g factory /srv/factory /var/lib/factory
USER factory
WORKDIR /srv/factory
COPY --chown=factory:factory . .
ENV SPYRE_FACTORY_DATA_DIR=/var/lib/factory SPYRE_SIM_CACHE_DIR=/var/lib/factory/simulator
ARG TORCH_INDEX_URL=
RUN requirements/setup.sh
ENV PATH=/srv/factory/.venv/bin:$PATH
VOLUME /var/lib/factory
EXPOSE 8000
