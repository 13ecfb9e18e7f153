-- What wattiod's source "exec" reads from a PostgreSQL server: the number of statements so far and the
-- sum of their times, without this statement. Only statements that clients sent are counted, not those
-- within functions. If there are more different statements than pg_stat_statements.max, the least used
-- are left out of both sums from then on; dealloc counts how often that has happened.
SELECT json_build_object(
    'requests_total', coalesce(sum(calls), 0),
    'latency_us_total', coalesce(sum(total_exec_time), 0) * 1000,
    'totals_epoch', (SELECT dealloc FROM pg_stat_statements_info)
)
FROM pg_stat_statements
WHERE toplevel AND query NOT LIKE '%pg_stat_statements%'
\watch 0.5
