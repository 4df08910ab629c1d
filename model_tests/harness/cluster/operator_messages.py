"""What operators ask about topics and settings, also what a client of this project would never send."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from kio.schema.alter_configs.v2 import request as replacing
from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.incremental_alter_configs.v1 import request as altering

from tidegauge.impl.client import requests, topic_requests
from tidegauge.impl.wire.primitives import i8
from tidegauge.model_tests.harness.cores.administration_abstraction import resource_of
from tidegauge.spec.administration.settings import Change, Resource


def create_topic(
    name: str,
    partitions: int,
    factor: int,
    configs: Mapping[str, str],
    assignments: Sequence[Sequence[int]],
    *,
    validate_only: bool = False,
) -> CreateTopicsRequest:
    request = requests.create_topic(name, partitions, factor, configs, assignments)
    return dataclasses.replace(request, validate_only=validate_only)


def create_partitions(
    name: str, count: int, assignments: Sequence[Sequence[int]], *, validate_only: bool
) -> CreatePartitionsRequest:
    request = topic_requests.create_partitions(name, count, assignments)
    return dataclasses.replace(request, validate_only=validate_only)


def reassign(
    topic: str, partition: int, brokers: Sequence[int] | None, *, keeps_factor: bool
) -> AlterPartitionReassignmentsRequest:
    request = topic_requests.reassign(topic, partition, brokers)
    return dataclasses.replace(request, allow_replication_factor_change=not keeps_factor)


def alter(
    resource: Resource, changes: Sequence[Change], *, validate_only: bool = False
) -> altering.IncrementalAlterConfigsRequest:
    kind, name = resource_of(resource)
    configs = tuple(
        altering.AlterableConfig(name=one.name, config_operation=i8(one.operation), value=one.value) for one in changes
    )
    one = altering.AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=configs)
    return altering.IncrementalAlterConfigsRequest(resources=(one,), validate_only=validate_only)


def replace(
    resource: Resource, values: Sequence[tuple[str, str | None]], *, validate_only: bool = False
) -> replacing.AlterConfigsRequest:
    kind, name = resource_of(resource)
    configs = tuple(replacing.AlterableConfig(name=setting, value=value) for setting, value in values)
    one = replacing.AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=configs)
    return replacing.AlterConfigsRequest(resources=(one,), validate_only=validate_only)
