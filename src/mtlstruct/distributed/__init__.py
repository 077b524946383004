"""Training on shards: worker teams, Ray, the merged index and the sharded oracle.

May import: `training` and the layers below.
Start reading at `team.Team` and `sharded_oracle.ShardedOracle`.
"""
