// Declares the functions of librdkafka that Headwater uses, and the functions of librdkafka_bridge.c. The C compiler
// and cffi read this file, so it has neither preprocessor lines nor function bodies. Source of the declarations:
// rdkafka.h of librdkafka 2.16.

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_consumer_group_metadata_s rd_kafka_consumer_group_metadata_t;

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
    void *metadata;
    size_t metadata_size;
    void *opaque;
    int err;
    void *_private;
} rd_kafka_topic_partition_t;

typedef struct {
    int cnt;
    int size;
    rd_kafka_topic_partition_t *elems;
} rd_kafka_topic_partition_list_t;

typedef struct {
    int32_t id;
    int err;
    int32_t leader;
    int replica_cnt;
    int32_t *replicas;
    int isr_cnt;
    int32_t *isrs;
} rd_kafka_metadata_partition_t;

typedef struct {
    char *topic;
    int partition_cnt;
    rd_kafka_metadata_partition_t *partitions;
    int err;
} rd_kafka_metadata_topic_t;

typedef struct {
    int broker_cnt;
    void *brokers;
    int topic_cnt;
    rd_kafka_metadata_topic_t *topics;
    int32_t orig_broker_id;
    char *orig_broker_name;
} rd_kafka_metadata_t;

typedef struct {
    int vtype;
    union {
        const char *cstr;
        rd_kafka_topic_t *rkt;
        int i;
        int32_t i32;
        int64_t i64;
        struct {
            void *ptr;
            size_t size;
        } mem;
        struct {
            const char *name;
            const void *val;
            int64_t size;
        } header;
        void *ptr;
        char padding[64];
    } u;
} rd_kafka_vu_t;

typedef void partition_list_cb_t(rd_kafka_t *, int, rd_kafka_topic_partition_list_t *, void *);  // rebalances, commits
typedef void error_cb_t(rd_kafka_t *, int, const char *, void *);
typedef void log_cb_t(const rd_kafka_t *, int, const char *, const char *);
typedef void token_cb_t(rd_kafka_t *, const char *, void *);
typedef void delivery_cb_t(rd_kafka_t *, const rd_kafka_message_t *, void *);

char *strdup(const char *);

int rd_kafka_version(void);
const char *rd_kafka_err2str(int);

rd_kafka_conf_t *rd_kafka_conf_new(void);
void rd_kafka_conf_destroy(rd_kafka_conf_t *);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_opaque(rd_kafka_conf_t *, void *);
void rd_kafka_conf_set_rebalance_cb(rd_kafka_conf_t *, partition_list_cb_t *);
void rd_kafka_conf_set_error_cb(rd_kafka_conf_t *, error_cb_t *);
void rd_kafka_conf_set_log_cb(rd_kafka_conf_t *, log_cb_t *);
void rd_kafka_conf_set_oauthbearer_token_refresh_cb(rd_kafka_conf_t *, token_cb_t *);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, delivery_cb_t *);
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
void rd_kafka_destroy_flags(rd_kafka_t *, int);
void *rd_kafka_opaque(const rd_kafka_t *);
int rd_kafka_set_log_queue(rd_kafka_t *, rd_kafka_queue_t *);
int rd_kafka_poll(rd_kafka_t *, int);
int rd_kafka_metadata(rd_kafka_t *, int, rd_kafka_topic_t *, const rd_kafka_metadata_t **, int);
void rd_kafka_metadata_destroy(const rd_kafka_metadata_t *);
int rd_kafka_fatal_error(rd_kafka_t *, char *, size_t);
int rd_kafka_oauthbearer_set_token(rd_kafka_t *, const char *, int64_t, const char *, const char **, size_t, char *,
                                   size_t);
int rd_kafka_oauthbearer_set_token_failure(rd_kafka_t *, const char *);

int rd_kafka_error_code(const rd_kafka_error_t *);
const char *rd_kafka_error_string(const rd_kafka_error_t *);
int rd_kafka_error_is_fatal(const rd_kafka_error_t *);
int rd_kafka_error_is_retriable(const rd_kafka_error_t *);
int rd_kafka_error_txn_requires_abort(const rd_kafka_error_t *);
void rd_kafka_error_destroy(rd_kafka_error_t *);

rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_copy(const rd_kafka_topic_partition_list_t *);
void rd_kafka_topic_partition_list_destroy(rd_kafka_topic_partition_list_t *);
rd_kafka_topic_partition_t *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *, const char *, int32_t);
void rd_kafka_topic_partition_set_leader_epoch(rd_kafka_topic_partition_t *, int32_t);
int32_t rd_kafka_topic_partition_get_leader_epoch(const rd_kafka_topic_partition_t *);

int rd_kafka_poll_set_consumer(rd_kafka_t *);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *);
rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *);
int rd_kafka_queue_poll_callback(rd_kafka_queue_t *, int);
void rd_kafka_queue_destroy(rd_kafka_queue_t *);
void rd_kafka_queue_yield(rd_kafka_queue_t *);
int64_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
void rd_kafka_message_destroy(rd_kafka_message_t *);
int64_t rd_kafka_message_timestamp(const rd_kafka_message_t *, int *);
int32_t rd_kafka_message_leader_epoch(const rd_kafka_message_t *);
int rd_kafka_message_headers(const rd_kafka_message_t *, rd_kafka_headers_t **);
int rd_kafka_header_get_all(const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *);
int rd_kafka_subscribe(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
int rd_kafka_unsubscribe(rd_kafka_t *);
int rd_kafka_assign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
rd_kafka_error_t *rd_kafka_incremental_assign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
rd_kafka_error_t *rd_kafka_incremental_unassign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
int rd_kafka_assignment_lost(rd_kafka_t *);
rd_kafka_error_t *rd_kafka_seek_partitions(rd_kafka_t *, rd_kafka_topic_partition_list_t *, int);
int rd_kafka_pause_partitions(rd_kafka_t *, rd_kafka_topic_partition_list_t *);
int rd_kafka_resume_partitions(rd_kafka_t *, rd_kafka_topic_partition_list_t *);
int rd_kafka_commit_queue(
    rd_kafka_t *, const rd_kafka_topic_partition_list_t *, rd_kafka_queue_t *, partition_list_cb_t *, void *);
int rd_kafka_committed(rd_kafka_t *, rd_kafka_topic_partition_list_t *, int);
int rd_kafka_query_watermark_offsets(rd_kafka_t *, const char *, int32_t, int64_t *, int64_t *, int);
rd_kafka_consumer_group_metadata_t *rd_kafka_consumer_group_metadata(rd_kafka_t *);
void rd_kafka_consumer_group_metadata_destroy(rd_kafka_consumer_group_metadata_t *);
rd_kafka_error_t *rd_kafka_consumer_close_queue(rd_kafka_t *, rd_kafka_queue_t *);
int rd_kafka_consumer_closed(rd_kafka_t *);

rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, rd_kafka_topic_conf_t *);
void rd_kafka_topic_destroy(rd_kafka_topic_t *);
rd_kafka_topic_conf_t *rd_kafka_topic_conf_new(void);
void rd_kafka_topic_conf_destroy(rd_kafka_topic_conf_t *);
int rd_kafka_topic_conf_set(rd_kafka_topic_conf_t *, const char *, const char *, char *, size_t);
rd_kafka_error_t *rd_kafka_produceva(rd_kafka_t *, const rd_kafka_vu_t *, size_t);
int rd_kafka_outq_len(rd_kafka_t *);
int rd_kafka_flush(rd_kafka_t *, int);
int rd_kafka_purge(rd_kafka_t *, int);
rd_kafka_error_t *rd_kafka_init_transactions(rd_kafka_t *, int);
rd_kafka_error_t *rd_kafka_begin_transaction(rd_kafka_t *);
rd_kafka_error_t *rd_kafka_send_offsets_to_transaction(rd_kafka_t *, const rd_kafka_topic_partition_list_t *,
                                                       const rd_kafka_consumer_group_metadata_t *, int);
rd_kafka_error_t *rd_kafka_commit_transaction(rd_kafka_t *, int);
rd_kafka_error_t *rd_kafka_abort_transaction(rd_kafka_t *, int);

// The functions that the bridge calls. Python looks them up in the librdkafka that confluent-kafka has loaded.
typedef struct {
    int64_t (*consume_batch_queue)(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
    void (*queue_yield)(rd_kafka_queue_t *);
    void (*message_destroy)(rd_kafka_message_t *);
    int64_t (*message_timestamp)(const rd_kafka_message_t *, int *);
    int32_t (*message_leader_epoch)(const rd_kafka_message_t *);
    int (*message_headers)(const rd_kafka_message_t *, rd_kafka_headers_t **);
    int (*header_get_all)(const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *);
    rd_kafka_topic_partition_list_t *(*topic_partition_list_copy)(const rd_kafka_topic_partition_list_t *);
    int (*assign)(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
    rd_kafka_error_t *(*incremental_unassign)(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
    int (*assignment_lost)(rd_kafka_t *);
    void *(*opaque)(const rd_kafka_t *);
    rd_kafka_error_t *(*produceva)(rd_kafka_t *, const rd_kafka_vu_t *, size_t);
    int (*error_code)(const rd_kafka_error_t *);
    void (*error_destroy)(rd_kafka_error_t *);
} KafkaFunctions;

// The kinds of events; EventKind in librdkafka.py repeats them.
enum { KAFKA_REBALANCE = 1, KAFKA_COMMIT = 2, KAFKA_ERROR = 3, KAFKA_LOG = 4, KAFKA_TOKEN = 5 };

// An event that a callback queued for Python.
typedef struct {
    int32_t kind;
    int32_t code;  // an error code; of a LOG event, the level
    int32_t lost;  // 1 when another member may already own the revoked partitions
    rd_kafka_topic_partition_list_t *partitions;
    char text[360];
} KafkaEvent;

// A record that a producer could not deliver.
typedef struct {
    int64_t record_id;
    int32_t code;
} KafkaDeliveryFailure;

// The events of one client.
typedef struct {
    rd_kafka_queue_t *queue;  // a consumer's queue, NULL for a producer: some events end a wait on this queue
    // 1 while the consumer closes. Then kafka_on_rebalance answers revocations by itself. It answers no assignment,
    // because the client needs no partitions; if librdkafka waits for that answer, the close ends at its timeout.
    int32_t closing;
    int32_t count;  // the number of events in `events`
    int64_t dropped;  // how many events were discarded because the array was full
    KafkaEvent events[256];
    int64_t acknowledged;  // how many records of a producer the brokers have acknowledged
    KafkaDeliveryFailure *failures;  // of a producer
    int64_t failure_capacity;  // length of `failures`: twice the number of records that the client's queue can hold
    int64_t failure_count;
} KafkaEvents;

// Messages that `kafka_fetch_messages` returned, until `kafka_copy_and_free_messages` or `kafka_free_messages` frees
// them.
typedef struct {
    rd_kafka_queue_t *queue;
    rd_kafka_message_t **messages;
    int64_t capacity;  // length of `messages`
    int64_t count;
    int64_t values_size;  // bytes that the column of the values takes, with a newline after each value
    int64_t keys_size;  // the same for the keys
    int64_t ends_count;
    struct {
        int32_t partition;
        int64_t offset;  // the offset after the last record
    } ends[64];  // partitions that were read to their end
    int64_t errors_count;
    struct {
        int32_t code;
        int32_t partition;
        int64_t offset;
        char text[360];
    } errors[64];  // partitions that could not be read
} KafkaFetchedMessages;

// A bytes column, as in bytes_column.c.
typedef struct {
    const uint8_t *buffer;
    const int32_t *starts;
    const int32_t *sizes;
} KafkaBytesColumn;

// One header of a batch of records. If `values.sizes` is NULL, the values are formatted as
// "<prefix><partition>/<offset>/<index>".
typedef struct {
    const char *name;
    KafkaBytesColumn values;
    const uint8_t *prefix;
    int64_t prefix_size;
    const int64_t *partitions;
    const int64_t *offsets;
    const int64_t *indexes;
} KafkaHeaderColumn;

// Records for one topic.
typedef struct {
    rd_kafka_t *client;
    rd_kafka_topic_t *topic;
    int64_t count;
    int64_t first_record_id;  // the id of the first record; a delivery report carries the id of its record
    KafkaBytesColumn values;
    KafkaBytesColumn keys;
    const int64_t *partitions;
    const int64_t *timestamps;
    const KafkaHeaderColumn *headers;
    int64_t headers_count;
} KafkaRecords;

void kafka_set_functions(const KafkaFunctions *functions);

void kafka_on_rebalance(rd_kafka_t *, int, rd_kafka_topic_partition_list_t *, void *);
void kafka_on_commit(rd_kafka_t *, int, rd_kafka_topic_partition_list_t *, void *);
void kafka_on_error(rd_kafka_t *, int, const char *, void *);
void kafka_on_log(const rd_kafka_t *, int, const char *, const char *);
void kafka_on_token_refresh(rd_kafka_t *, const char *, void *);
void kafka_on_delivery(rd_kafka_t *, const rd_kafka_message_t *, void *);

int64_t kafka_fetch_messages(KafkaFetchedMessages *fetched, int64_t max_records, int64_t max_bytes, int timeout_ms);
void kafka_copy_and_free_messages(KafkaFetchedMessages *fetched, uint8_t *values, int32_t *value_sizes, uint8_t *keys,
                                  int32_t *key_sizes, int64_t *timestamps, int64_t *partitions, int64_t *offsets,
                                  int32_t *leader_epochs);
void kafka_measure_headers(const KafkaFetchedMessages *fetched, int32_t *counts, int64_t *count, int64_t *names_size,
                           int64_t *values_size);
void kafka_copy_headers(const KafkaFetchedMessages *fetched, uint8_t *names, int32_t *name_sizes, uint8_t *values,
                        int32_t *value_sizes);
void kafka_free_messages(KafkaFetchedMessages *fetched);
int64_t kafka_enqueue(KafkaEvents *events, const KafkaRecords *records, int64_t first);
