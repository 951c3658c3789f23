"""What surrounds the drafting agents in the service: endpoint, examples, stored conversations, costs, rules."""
