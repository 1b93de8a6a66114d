"""The jars of the embedded Kafka, in the folder `jars` of this package.

The folder also has `jars.sha256`, the SHA-256 checksums that this version of Headwater expects of the jars.
"""
