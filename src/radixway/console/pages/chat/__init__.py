"""*Chat*: the gateway's own chat service, with branches, plugins and answers that outlive the page."""
