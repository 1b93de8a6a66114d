"""The jars of the embedded Kafka, in the folder `jars` of this package.

The folder also has `jars.sha256`, the sums of the version of Headwater that the jars belong to.
"""
