# Needs a kcat with librdkafka 2.6.1 or newer, see kcat -V; older ones can't log in to Kafka 4 (a fault of their SCRAM).
kcat -q -u -b @bootstrap_servers@ \
  -X security.protocol=@security_protocol@ \
@login@
  -X sasl.mechanism=@sasl_mechanism@ \
  -X sasl.username=@username@ \
  -X sasl.password=@password@ \
@end@
  -X isolation.level=read_committed \
  -X auto.offset.reset=earliest \
  -f '%h\t%s\n' -G @consumer_group@ @topic@ |
# After a failure, records may be delivered again, with the same headwater-src header.
perl -ne '$| = 1; ($headers, $value) = split /\t/, $_, 2;
  print $value unless $headers =~ /headwater-src=([^,]*)/ && $seen{$1}++'
