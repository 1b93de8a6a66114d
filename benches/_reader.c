// Reads records and drops them: the CPU time of librdkafka alone, for the benchmark `small_batches`.
// Usage: reader TOPIC PARTITIONS RECORDS [SETTING VALUE] …
// Prints how many records received after the first batch, and the CPU seconds that reading them took.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "librdkafka.h"

int rd_kafka_consumer_close(rd_kafka_t *);  // workers close in the background, so their header does not declare it

enum { CONSUMER = 1, CHUNK = 512, WAIT_MS = 1000, PARTITION_EOF = -191 };

static void fail(const char *reason) {
    fprintf(stderr, "%s\n", reason);
    exit(1);
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static rd_kafka_t *consumer(char **settings, int count) {
    char reason[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (int i = 0; i + 1 < count; i += 2)
        if (rd_kafka_conf_set(conf, settings[i], settings[i + 1], reason, sizeof reason)) fail(reason);
    rd_kafka_t *client = rd_kafka_new(CONSUMER, conf, reason, sizeof reason);
    if (!client) fail(reason);
    rd_kafka_poll_set_consumer(client);
    return client;
}

static void assign(rd_kafka_t *client, const char *topic, int partitions) {
    rd_kafka_topic_partition_list_t *assigned = rd_kafka_topic_partition_list_new(partitions);
    for (int partition = 0; partition < partitions; partition++)
        rd_kafka_topic_partition_list_add(assigned, topic, partition)->offset = 0;
    if (rd_kafka_assign(client, assigned)) fail("the partitions can't be assigned");
    rd_kafka_topic_partition_list_destroy(assigned);
}

// Takes the messages that are queued, and waits only if there are none. Returns how many of them are records.
static int64_t read_some(rd_kafka_queue_t *queue) {
    static rd_kafka_message_t *messages[CHUNK];
    int64_t received = rd_kafka_consume_batch_queue(queue, 0, messages, CHUNK), records = 0;
    if (!received) received = rd_kafka_consume_batch_queue(queue, WAIT_MS, messages, 1);
    for (int64_t i = 0; i < received; i++) {
        const int code = messages[i]->err;
        if (code && code != PARTITION_EOF) fail(rd_kafka_err2str(code));
        records += !code;
        rd_kafka_message_destroy(messages[i]);
    }
    return records;
}

int main(int count, char **arguments) {
    if (count < 4) fail("reader TOPIC PARTITIONS RECORDS [SETTING VALUE] …");
    const int64_t expected = atoll(arguments[3]);
    rd_kafka_t *client = consumer(arguments + 4, count - 4);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
    assign(client, arguments[1], atoi(arguments[2]));
    int64_t first = 0;
    while (!first) first = read_some(queue);
    const double started = cpu_seconds();
    for (int64_t left = expected - first; left > 0; left -= read_some(queue))
        ;
    printf("%lld %.6f\n", (long long)(expected - first), cpu_seconds() - started);
    rd_kafka_queue_destroy(queue);
    rd_kafka_consumer_close(client);
    rd_kafka_destroy_flags(client, 0);
    return 0;
}
