"""The layers of neural networks: activations, normalisations, convolutions, pooling, attention, losses."""
