"""The transport `rclone`: publishes to whatever rclone reaches."""
