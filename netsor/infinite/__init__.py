"""The limit in numbers: only scores are sampled; every vector enters through its covariance given the scores."""
