"""A broker of one topic 't' that refuses what the test says, on a real socket: for the command."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire import apis, codec, fetch, produce
from josefine_broker.wire import entities as e

TOPIC_ID = UUID(int=7)
Refusal = tuple[ErrorCode, str]


class ScriptedBroker:
    """Broker 1; partition t-0 is led by `leader`, whose address is ours or `leader_port`."""

    def __init__(
        self,
        *,
        leader: int,
        leader_port: int | None = None,
        produce: Refusal | None = None,
        create: Refusal | None = None,
        latest: int = 0,
        heard: Callable[[], bool] = lambda: True,
    ) -> None:
        """A reader finds nothing up to `latest`, and an error once the test has `heard` enough."""
        self._leader = leader
        self._produce = produce
        self._create = create
        self._latest = latest
        self._heard = heard
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        self._leader_port = leader_port or self._port
        self._connections: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._port}"
        self._answers = {
            apis.METADATA: self._metadata,
            apis.INIT_PRODUCER_ID: self._producer_id,
            apis.LIST_OFFSETS: self._offsets,
            apis.PRODUCE: self._produced,
            apis.CREATE_TOPICS: self._created,
            apis.FETCH: self._fetched,
        }

    def __enter__(self) -> ScriptedBroker:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for each in (self._listener, *self._connections):
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while size := connection.recv(4, socket.MSG_WAITALL):
                length = int.from_bytes(size, "big")
                frame = memoryview(bytearray(connection.recv(length, socket.MSG_WAITALL)))
                connection.sendall(self._answer(frame))

    def _answer(self, frame: memoryview) -> bytes:
        header = codec.parse_request_header(frame)
        if header.api_key == apis.API_VERSIONS:
            response: Any = self._versions()
        else:
            request = codec.decode_request(header, frame)
            response = self._answers[header.api_key](request)
        buffers = codec.encode_response(
            header.api_key, header.api_version, header.correlation_id, response
        )
        return b"".join(bytes(each) for each in buffers)

    def _versions(self) -> Any:
        served = (spec for spec in apis.APIS.values() if spec.key in self._answers)
        return e.api_versions.ApiVersionsResponse(
            api_keys=tuple(
                e.api_versions.ApiVersion(
                    api_key=each.key, min_version=each.min_version, max_version=each.max_version
                )
                for each in served
            )
        )

    def _metadata(self, _request: Any) -> Any:
        m = e.metadata
        partition = m.MetadataResponsePartition(partition_index=0, leader_id=self._leader)
        topic = m.MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=(partition,))
        ports = {1: self._port, 2: self._leader_port}
        return m.MetadataResponse(
            brokers=tuple(
                m.MetadataResponseBroker(node_id=id_, host="127.0.0.1", port=port)
                for id_, port in ports.items()
            ),
            controller_id=1,
            topics=(topic,),
        )

    def _producer_id(self, _request: Any) -> Any:
        return e.init_producer_id.InitProducerIdResponse(producer_id=1, producer_epoch=0)

    def _offsets(self, request: Any) -> Any:
        wanted = request.topics[0].partitions[0].timestamp
        listed = e.list_offsets.ListOffsetsPartitionResponse(
            partition_index=0, offset=self._latest if wanted == -1 else 0
        )
        topic = e.list_offsets.ListOffsetsTopicResponse(name="t", partitions=(listed,))
        return e.list_offsets.ListOffsetsResponse(topics=(topic,))

    def _produced(self, _request: Any) -> Any:
        code, words = self._produce or (ErrorCode.none, "")
        part = produce.ProducePartitionResponse(0, int(code), error_message=words)
        return produce.ProduceResponse((produce.ProduceTopicResponse("t", TOPIC_ID, (part,)),))

    def _created(self, _request: Any) -> Any:
        code, words = self._create or (ErrorCode.none, "")
        topic = e.create_topics.CreatableTopicResult(name="t", error_code=code, error_message=words)
        return e.create_topics.CreateTopicsResponse(topics=(topic,))

    def _fetched(self, _request: Any) -> Any:
        code = ErrorCode.offset_out_of_range if self._heard() else ErrorCode.none
        part = fetch.FetchPartitionResponse(0, int(code), high_watermark=0)
        topic = fetch.FetchTopicResponse("t", TOPIC_ID, (part,))
        return fetch.FetchResponse(topics=(topic,))
