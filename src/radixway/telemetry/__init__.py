"""What the gateway tells about itself: metrics, logging and the journal of each request."""
