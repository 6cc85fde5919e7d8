"""The transport `hf`: publishes to the Hugging Face hub."""
