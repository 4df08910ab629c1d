"""An S3 of our own for the tests: moto's server, on a port of this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import attrs
import pyarrow.fs as pafs
import pytest


@attrs.frozen
class Bucket:
    """A bucket. Processes that began before it was there find it by the options in the URI."""

    name: str
    endpoint: str

    def uri(self, path: str) -> str:
        """A path in the bucket, with everything that one has to know."""
        options = f"region=us-east-1&scheme=http&endpoint_override={self.endpoint}"
        return f"s3a://test:test@{self.name}/{path}?{options}"


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    """A bucket; all that asks for S3 in this process gets there."""
    server_of = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        settings = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": "us-east-1"}
        for name, value in {**settings, "ENDPOINT_URL": f"http://{host}:{port}"}.items():
            patch.setenv(f"AWS_{name}", value)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        files, path = pafs.FileSystem.from_uri("s3://histories?allow_bucket_creation=true")
        files.create_dir(path)
        yield Bucket(path, f"{host}:{port}")
    server.stop()
