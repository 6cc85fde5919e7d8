"""The transport `rclone`: publishes to whatever rclone reaches, such as S3, OneDrive, WebDAV or sftp."""

from agentix.plugins.transports.rclone.inputs import RcloneInputs
from agentix.plugins.transports.rclone.transport import Rclone

__all__ = ["Rclone", "RcloneInputs"]
