"""Training on shards: workers on threads or in Ray actors, the merged index and the sharded oracle.

May import: `training` and the layers below.
Start reading at `shard.Shard`, `pool.Pool` and `oracle.ShardedOracle`.
"""
