-- What wattiod's source "exec" reads of a PostgreSQL server: all statements so far and the sum of
-- their times, without this one. Only those that clients sent are counted, not those within functions.
-- Where there are more different ones than pg_stat_statements.max, the least used are left out of both
-- sums from then on; dealloc says how often that has happened.
SELECT json_build_object(
    'requests_total', coalesce(sum(calls), 0),
    'latency_us_total', coalesce(sum(total_exec_time), 0) * 1000,
    'totals_epoch', (SELECT dealloc FROM pg_stat_statements_info)
)
FROM pg_stat_statements
WHERE toplevel AND query NOT LIKE '%pg_stat_statements%'
\watch 0.5
