"""The core rules again, as one SQL query that shares no code with the array kernel.

Spark's optimizer compiles it to JVM code. It costs about ten times as much as the kernel; it exists to be compared with
the kernel, row by row. It names the rule that a history breaks, without a witness, and leaves out what needs more than
joins and windows: holes, polls, sends, unclean elections.

* By value: a value is at one offset, some produce sent it, and that produce did not fail.
* By offset: one value is at an offset. An acknowledged value that another replaced, and that no fetch returned, is a
  lost write.
* By time: a fetch without a position begins where the last one of its process ended, unless one of unknown outcome lies
  between. `reached`, the running maximum of the lengths known before an operation was invoked, is at most the length
  that the operation found. Strictly before: intervals that touch are concurrent.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.linearizability.log import Level

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RULES = ("duplicate", "aborted_read", "unwritten_read", "inconsistent_offsets", "lost_write", "real_time")

_QUERY = """
with
call_order as (
  select *,
         sum(case when kind = 1 and outcome = 2 then 1 else 0 end)
           over (partition by history, topic, partition, process order by index) as lost
  from {operations}
),
operation as (
  select * except (lost),
         case when kind <> 1 or offset is not null then offset
              else last(case when kind <> 1 or outcome <> 0 then null
                             when size(values) > 0
                             then coalesce(element_at(offsets, -1), offset + size(values) - 1) + 1
                             else offset end, true)
                     over (partition by history, topic, partition, process, lost order by index
                           rows between unbounded preceding and 1 preceding) end as position,
         max(case when kind = 4 then call end) over (partition by history, topic, partition) as settled,
         kind = 0 and outcome = 0 and acks = -1 as strong
  from call_order
  where history not in (select history from {operations} where kind = 3)
),
record as (
  select history, topic, partition, index, kind, outcome, strong, pos, value,
         coalesce(get(offsets, pos), offset + pos) as place
  from operation lateral view posexplode(values) as pos, value
  where kind = 0 or (kind = 1 and outcome = 0)
),
seen as (
  select history, topic, partition, value, min(place) as place from record where kind = 1 group by all
),
written as (
  select record.*, seen.place as seen_at,
         min(seen.place - pos) over (partition by record.history, record.topic, record.partition, index) as base
  from record left join seen using (history, topic, partition, value)
  where kind = 0
),
by_value as (
  select history,
         max(kind = 0) and min(case when kind = 1 or outcome = 0 then place end)
                        <> max(case when kind = 1 or outcome = 0 then place end) as duplicate,
         max(kind = 0 and outcome = 1) and max(kind = 1) as aborted_read,
         not max(kind = 0) as unwritten_read
  from record group by history, topic, partition, value
),
held as (
  select history, topic, partition, value, case when strong then place else base + pos end as place,
         strong and seen_at is null as unread
  from written where strong or base is not null
  union all
  select history, topic, partition, value, place, false from record where kind = 1
),
by_offset as (
  select history,
         min(value) <> max(value) as inconsistent_offsets,
         min(value) <> max(value) and max(unread) as lost_write
  from held group by history, topic, partition, place
),
base as (
  select history, topic, partition, index, max(base) as base from written group by all
),
claim as (
  select operation.history, operation.topic, operation.partition, operation.call, operation.return,
         case when strong then offset + size(values)
              when kind = 2 and outcome = 0 then offset
              when kind = 1 and outcome = 0 then
                greatest(case when size(values) > 0
                              then coalesce(element_at(offsets, -1), offset + size(values) - 1) + 1 end,
                         high_watermark) end as least,
         case when strong then offset
              when kind = 0 then base
              when outcome <> 0 or not ({strict} or call >= coalesce(settled, call + 1)) then null
              when kind = 2 then offset
              when kind = 1 and high_watermark is not null then high_watermark
              when kind = 1 and size(values) = 0 then position end as most
  from operation left join base using (history, topic, partition, index)
),
instant as (
  select history, topic, partition, return as time, least, cast(null as bigint) as most
  from claim where least is not null and return is not null
  union all
  select history, topic, partition, call, null, most from claim where most is not null
),
running as (
  select history, most,
         max(least) over (partition by history, topic, partition order by time
                          range between unbounded preceding and 1 preceding) as reached
  from instant
),
broken as (
  select history, duplicate, aborted_read, unwritten_read, false as inconsistent_offsets, false as lost_write,
         false as real_time from by_value
  union all
  select history, false, false, false, inconsistent_offsets, lost_write, false from by_offset
  union all
  select history, false, false, false, false, false, most is not null and coalesce(reached > most, false) from running
  union all
  select distinct history, false, false, false, false, false, false from operation
)
select history, {rules} from broken group by history order by history
"""


def check_rules(spark: SparkSession, paths: Iterable[str | Path], level: Level = Level.KAFKA) -> DataFrame:
    """One row for each history: `history`, and for each of RULES whether the history breaks it.

    `paths` are Parquet files with all columns of docs/history.md. Histories with an unclean election are left out.
    """
    operations = spark.read.parquet(*(str(path) for path in paths))
    strict = "true" if level is Level.STRICT else "false"
    rules = ", ".join(f"coalesce(max({rule}), false) as {rule}" for rule in RULES)
    query = _QUERY.replace("{strict}", strict).replace("{rules}", rules)
    return spark.sql(query, operations=operations)
