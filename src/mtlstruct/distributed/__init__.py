"""Training on shards: workers in this process or in Ray actors, merged index, sharded oracle.

Other commands use the pools for workers of their own (`cli.engine`).

May import: `training` and the layers below.
Start reading at `shard.Shard`, `pool.Pool` and `oracle.ShardedOracle`.
"""
