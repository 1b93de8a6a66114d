/** The schemas of the API. `deno task generate` writes this file. */

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Whether the workers have read a version of a set. */
        Applied: {
            /** @description True when every batch of records that starts from now on sees all writes up to this version. */
            applied: boolean;
            /** @description The version that the request names, or else the present one. */
            version: number;
            /** @description For a filter all workers of the pipeline; for a dataset the workers that may have looked it up. Empty while the pipeline is paused, until its first workers exist, and after its rollout has failed. */
            workers: components["schemas"]["AppliedWorker"][];
        };
        /** @description A worker that uses the set. */
        AppliedWorker: {
            name: string;
            /** @description The version that the worker has read last; null until it has reported one. A version that the set has lost since, such as in a failover of Valkey or Redis, does not count. */
            version: number | null;
        };
        /** @description The result of one of the two revisions for a record. */
        ComparedResultBody: {
            errors: components["schemas"]["RecordError"][];
            /** @enum {string} */
            outcome: "sent" | "dropped" | "error" | "unfinished";
            /** @description The records that every sink gets. */
            outputs: unknown[];
        };
        /**
         * @description How the results differ from the results of the revision `against`, by record.
         *
         *     Outputs are compared as JSON values, and errors by class and message. A record that is not done is not compared.
         */
        ComparisonBody: {
            /** @description Records with other outputs, or with other errors. */
            changed: number;
            /** @description At most 5 of each difference, 1 MiB together. */
            examples: components["schemas"]["DifferenceExampleBody"][];
            /** @description Records that only the configuration of the request sends. */
            only_after: number;
            /** @description Records that only the revision `against` sends. */
            only_before: number;
            same: number;
        };
        /**
         * @description The condition of a rollout, as GET …/deploy shows it.
         * @enum {string}
         */
        Condition: "Stable" | "RollingOut" | "RolledBack" | "Failed";
        /** @description A dataset. */
        DatasetBody: {
            /** @example 2026-01-02T03:04:05.678Z */
            created_at: string;
            id: string;
            name: string;
            /**
             * @default redis
             * @constant
             */
            type?: "redis";
            /** @example 2026-01-02T03:04:05.678Z */
            updated_at: string;
        };
        /** @description Whether a value is in a dataset. */
        DatasetMembership: {
            exists: boolean;
        };
        /**
         * @description A record that could not be processed, and why.
         *
         *     The record is in `record` when it is JSON, else in `record_base64`.
         */
        DeadLetterBody: {
            attempts: number;
            column: number | null;
            /** @description The class of the error. */
            error: string;
            /** @description The position of the letter: `<partition>/<offset>`. */
            id: string;
            /** @description The line in the script. */
            line: number | null;
            message: string;
            record?: unknown;
            record_base64?: string | null;
            /** @description The last redrive of the letter; null when it has none. */
            redriven: components["schemas"]["RedrivenBody"] | null;
            /** @description The revision that could not process the record. */
            revision: number | null;
            /** @description The position of the source record, as in the header `headwater-src`. */
            source: string;
            /** @example 2026-01-02T03:04:05.678Z */
            time: string;
            /** @description The uid of the transform, or the name of the sink. */
            transform_uid: string;
        };
        /** @description The counts of the dead letters, by class of error, transform or sink, and line. */
        DeadLetterSummaryBody: {
            /** @description The error with the newest letter first. */
            items: components["schemas"]["LetterSummaryBody"][];
        };
        /** @description The dead-letter topic, which has the records that could not be processed. */
        DeadLetterTopic: {
            topic: string;
        };
        /** @description A page of dead letters. */
        DeadLettersBody: {
            /** @description The cursor of the next page; null on the last page. */
            cursor: string | null;
            /** @description The newest first. */
            items: components["schemas"]["DeadLetterBody"][];
        };
        /** @description The state of a deployment, and the connection details of its sinks. */
        DeploymentBody: {
            /** @description `Stable`, `RollingOut`, `RolledBack` or `Failed`. */
            condition: string;
            config_id: string;
            dead_letter: components["schemas"]["DeadLetterTopic"];
            desired_revision: number;
            message: string;
            /** @description The reason for the condition; empty when there is none. */
            reason: string;
            /** @description The revision that runs; null until a revision runs. */
            revision: number | null;
            /** @description The last rewind; null when there was none. */
            rewind: components["schemas"]["LastRewind"] | null;
            /** @description How the number of workers follows the load. Omitted without bounds in `parallelism`. */
            scaling?: components["schemas"]["WorkerScaling"] | null;
            sinks: (components["schemas"]["SinkConnection"] | components["schemas"]["PricesConnection"])[];
            /** @enum {string} */
            status: "deployed" | "deploying" | "pausing" | "paused" | "failed" | "terminating";
            /** @description The number of workers that should run; 0 while the pipeline is paused. */
            workers: number;
        };
        /** @description The last log lines of a deployment's workers. */
        DeploymentLogs: {
            /** @description Newest first. */
            lines: components["schemas"]["LogEntry"][];
        };
        /** @description A deployment's metrics over time. */
        DeploymentSeries: {
            config_id: string;
            metrics: components["schemas"]["MetricSeries"][];
        };
        /** @description The health and the progress of a deployment's workers. */
        DeploymentStats: {
            /** @description Number of records in the source that are not processed yet, by their offsets; null when Kafka is unavailable, and always null for a source on Pub/Sub. */
            lag: number | null;
            /** @description Time of the last committed batch; null when there was none within a week, or when Valkey or Redis is unavailable. */
            last_progress_at: string | null;
            /** @description How the number of workers follows the load. Omitted without bounds in `parallelism`. */
            scaling?: components["schemas"]["WorkerScaling"] | null;
            workers_health: components["schemas"]["WorkersHealth"];
        };
        /** @description A record for which the two revisions have different results. */
        DifferenceExampleBody: {
            after: components["schemas"]["ComparedResultBody"];
            before: components["schemas"]["ComparedResultBody"];
            /** @enum {string} */
            difference: "changed" | "only_before" | "only_after";
            /** @description The record itself. */
            input: unknown;
            /** @description The record: `<partition>/<offset>`, or its index in the `records` of the request. */
            record: string | number;
        };
        /** @description One page of a dataset's entries, which are its values. */
        EntriesPage: {
            /** @description Send it as `cursor` to get the next page; null on the last page. */
            cursor: string | null;
            total_count: number;
            values: string[];
        };
        /** @description The number of entries that a write has changed. */
        EntriesWritten: {
            count: number;
            /** @description The set's version after the write. */
            version: number;
        };
        /** @description Errors with the same cause. */
        ErrorGroupBody: {
            column: number | null;
            count: number;
            /** @description The name of the error's class. */
            error: string;
            /** @description The first record with this error: `<partition>/<offset>`, or its index in the `records` of the request. */
            first: string | number;
            line: number | null;
            message: string;
            transform_uid: string;
        };
        /** @description One fault in a request. */
        Fault: {
            /** @description What is wrong with the member. */
            detail: string;
            /** @description The faulty member: a JSON pointer (RFC 6901) into the body, or `/<parameter>`. */
            pointer: string;
        };
        /** @description The number of values in a filter. */
        FilterCount: {
            count: number;
            /** @description The set's version. */
            version: number;
        };
        /** @description Whether a value is in a filter. */
        FilterMembership: {
            is_member: boolean;
            value: string;
        };
        /** @description One page of a filter's values. */
        FilterPage: {
            /** @description Send it as `cursor` to get the next page; null on the last page. */
            cursor: number | null;
            total_count: number;
            values: string[];
        };
        /** @description The number of values in a filter, and their digest. */
        FilterSummary: {
            count: number;
            /** @description Equal for equal sets of values, whatever the order of the writes was: the sum of the 128-bit XXH3 of each value in UTF-8, modulo 2^128, in hex. Null in the rare case that the set changes too often to compute it. */
            digest: string | null;
            /** @description The set's version. */
            version: number;
        };
        /** @description A pipeline configuration. */
        FlowConfig: {
            /** @example 2026-01-02T03:04:05.678Z */
            created_at: string;
            description: string;
            /** @description Your own id of the configuration; omitted when it has none. */
            external_id?: string | null;
            id: string;
            name: string;
            owner_org_team_user_id: string;
            /** @description The pipeline. For a configuration that this version can't read, the stored JSON value as it is. */
            pipeline_config: components["schemas"]["PipelineConfig"] | unknown;
            /** @description The number of the revision: 1 at first, and incremented by each change. It is also the ETag. */
            revision: number;
            tags: string[];
            /** @description Why this version of Headwater can't read the configuration, and what to do; omitted for a configuration that it can read. */
            unreadable?: string | null;
            /** @example 2026-01-02T03:04:05.678Z */
            updated_at: string;
            /** @description Warnings about the save: exceptions that new or changed scripts threw for the stream's example record, fields in filters that the stream does not have, `set_values` that were ignored, and filters that were removed. Omitted when there are none. */
            warnings?: components["schemas"]["Fault"][] | null;
        };
        /** @description Offsets of a partition whose records the source no longer has. */
        Gap: {
            /** @description The first offset that was removed. */
            from: number;
            partition: number;
            /** @description The offset after the last removed one, at which the pipeline continues. */
            to: number;
        };
        /** @description Writes the records to a Kafka topic that belongs to the sink. */
        KafkaSink: {
            /** @description What Kafka does with old records; default: `delete`. With `compact` Kafka keeps the newest record of each key, and a record without a key is a dead letter. */
            cleanup_policy?: ("delete" | "compact" | "compact,delete" | "delete,compact") | null;
            /** @description How the records are compressed; default: `lz4`. */
            compression?: ("none" | "gzip" | "snappy" | "lz4" | "zstd") | null;
            /** @description Names a Kafka sink's topic, `flow.<config_id>.<name>`; a prices sink has none. `dlq` is reserved. */
            name: string;
            /** @description Partitions of the topic; default: as many as the source has. A record of the source's partition p goes to partition p modulo this number. The number can be increased, but not decreased. */
            partitions?: number | null;
            /** @description Approximately how many bytes the topic keeps per partition. */
            retention_bytes?: number | null;
            /** @description How long the topic keeps a record, in milliseconds. */
            retention_ms?: number | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "kafka";
            /** @description Generated. It stays the same while the name stays the same. */
            readonly uid: string;
        };
        /** @description An API key, without its secret. */
        KeyBody: {
            /** @description When the key expires; null when it does not. */
            expires_at: string | null;
            /** @description The id of the key: the 12 characters after `hw_live_`. */
            key_id: string;
            /** @description The owner of the key. All keys of an owner see the same resources. */
            owner: string;
            scopes: string[];
        };
        /** @description The last rewind of a deployment. */
        LastRewind: {
            /** @description Why the rewind has failed; the positions are then unchanged. Empty otherwise. */
            error: string;
            /** @description The position of each partition that was moved. Empty while the rewind is pending, after a failure and for a stream from Google Pub/Sub. */
            positions: {
                [key: string]: components["schemas"]["MovedPosition"];
            };
            /** @example 2026-01-02T03:04:05.678Z */
            requested_at: string;
            /** @enum {string} */
            state: "pending" | "done" | "failed";
            /** @description The target of the rewind, as in the request. */
            to: string | {
                [key: string]: number;
            };
        };
        /** @description The number of dead letters with the same class of error, transform or sink, and line. */
        LetterSummaryBody: {
            /** @description How many letters were written since the pipeline was deployed. */
            count: number;
            /** @description The class of the error. */
            error: string;
            /** @description The id of the newest of these letters; null when it is not among the newest 5,000 letters of the pipeline, and always for `other`. */
            example: string | null;
            /** @example 2026-01-02T03:04:05.678Z */
            first: string;
            /** @example 2026-01-02T03:04:05.678Z */
            last: string;
            /** @description The line in the script. */
            line: number | null;
            /** @description The uid of the transform, or the name of the sink. */
            transform_uid: string;
        };
        /** @description A token with its statistics. */
        ListedToken: {
            /** @description The seconds since then. */
            age_s: number | null;
            chain: string;
            /** @description Null unless the status is `held`. */
            held_since: string | null;
            latest_price: number | null;
            percent_change_1h: number | null;
            percent_change_24h: number | null;
            quote_stale: boolean;
            /** @enum {string} */
            status: "ok" | "held" | "stale" | "unknown_token" | "unknown_chain";
            /** @description The time of the last accepted trade; null without a price. */
            timestamp: string | null;
            /** @description As on chain; EVM addresses in lower case. */
            token_address: string;
        };
        /** @description Response of GET /healthz. */
        Liveness: {
            /**
             * @default ok
             * @constant
             */
            status?: "ok";
        };
        /** @description A log line of a worker, or a `console.log` line of a script. */
        LogEntry: {
            /** @description `debug`, `info`, `warning` or `error`. */
            level: string;
            message: string;
            /** @enum {string} */
            source: "worker" | "script";
            /** @example 2026-01-02T03:04:05.678Z */
            time: string;
            worker: string;
        };
        /** @description A sentence that says what the request did. */
        Message: {
            message: string;
        };
        /** @description One interval of a series. */
        MetricPoint: {
            /**
             * @description The interval's start.
             * @example 2026-01-02T03:04:05.678Z
             */
            timestamp: string;
            /** @description The count of the interval, or the median of its times in ms. */
            value: number;
        };
        /** @description One metric over time. */
        MetricSeries: {
            /** @enum {string} */
            metric_type: "messages_received" | "messages_sent" | "total_latency" | "processing_latency" | "processor_error" | "output_error" | "data_age";
            /** @description Ordered by time; empty when nothing was measured. */
            points: components["schemas"]["MetricPoint"][];
        };
        /**
         * @description Summary of a deployment's metrics over a time range.
         *
         *     When the query parameter `metrics` names some types, the summary has only the members of these types.
         */
        MetricsSummary: {
            /** @description Time of delivery minus the record's own time; null when nothing was measured. */
            avg_data_age_ms?: number | null;
            /**
             * @description Per minute in which the configuration was deployed during the range.
             * @default 0
             */
            messages_received_per_min?: number;
            /**
             * @description Like `messages_received_per_min`; a record counts once for each sink.
             * @default 0
             */
            messages_sent_per_min?: number;
            /**
             * @description The number of errors divided by the number of received messages, at most 1.
             * @default 0
             */
            output_error_rate?: number;
            /** @description The `id` of the configuration. */
            pipeline_id: string;
            /** @description Time from the read of a record until it is handed to the producer. */
            processing_latency?: components["schemas"]["Percentiles"] | null;
            /**
             * @description The number of errors divided by the number of received messages, at most 1.
             * @default 0
             */
            processor_error_rate?: number;
            /** @enum {string} */
            time_range: "1h" | "1d" | "1w";
            /** @description Time from the source record's timestamp to the sink's acknowledgement. */
            total_latency?: components["schemas"]["Percentiles"] | null;
        };
        /** @description The position of a partition: the offset of the next record to read. */
        MovedPosition: {
            after: number;
            /** @description Null when the partition had no position. */
            before: number | null;
        };
        /** @description The body that creates a dataset. */
        NewDataset: {
            /** @description Unique among your datasets; stored as sent, matched exactly. */
            name: string;
        };
        /**
         * @description The request body that creates or replaces a configuration.
         *
         *     Fields that only responses have are accepted and ignored.
         */
        NewFlow: {
            /** @description Returned only; ignored. */
            readonly created_at?: unknown;
            /**
             * @description What the pipeline is for.
             * @default
             */
            description?: string | null;
            /** @description Your own id of the configuration, unique among yours. PUT without this keeps it; null removes it. */
            external_id?: string | null;
            /** @description Returned only; ignored. */
            readonly id?: unknown;
            /** @description The pipeline's name; need not be unique. */
            name: string;
            /** @description Returned only; ignored. */
            readonly owner_org_team_user_id?: unknown;
            pipeline_config: components["schemas"]["NewPipelineConfig"];
            /** @description Returned only; ignored. */
            readonly revision?: unknown;
            /** @description Words to organise pipelines by. */
            tags?: string[] | null;
            /** @description Returned only; ignored. */
            readonly unreadable?: unknown;
            /** @description Returned only; ignored. */
            readonly updated_at?: unknown;
            /** @description Returned only; ignored. */
            readonly warnings?: unknown;
        };
        /** @description A Kafka sink in a request. */
        NewKafkaSink: {
            /** @description What Kafka does with old records; default: `delete`. With `compact` Kafka keeps the newest record of each key, and a record without a key is a dead letter. */
            cleanup_policy?: ("delete" | "compact" | "compact,delete" | "delete,compact") | null;
            /** @description How the records are compressed; default: `lz4`. */
            compression?: ("none" | "gzip" | "snappy" | "lz4" | "zstd") | null;
            /** @description Names a Kafka sink's topic, `flow.<config_id>.<name>`; a prices sink has none. `dlq` is reserved. */
            name: string;
            /** @description Partitions of the topic; default: as many as the source has. A record of the source's partition p goes to partition p modulo this number. The number can be increased, but not decreased. */
            partitions?: number | null;
            /** @description Approximately how many bytes the topic keeps per partition. */
            retention_bytes?: number | null;
            /** @description How long the topic keeps a record, in milliseconds. */
            retention_ms?: number | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "kafka";
            /** @description Returned only; ignored. */
            readonly uid?: unknown;
        };
        /** @description The pipeline in a request. */
        NewPipelineConfig: {
            /**
             * @description `exactly_once` writes results in transactions, for readers with `read_committed`.
             * @default at_least_once
             */
            delivery?: ("at_least_once" | "exactly_once") | null;
            /**
             * @description Number of workers; or the bounds between which the number follows the load: `{"min": 1, "max": 8}`.
             * @default 1
             */
            parallelism?: number | components["schemas"]["WorkerBounds"] | null;
            /** @description The sinks of the results; each receives all. Names are unique. */
            sinks: (components["schemas"]["NewKafkaSink"] | components["schemas"]["NewPricesSink"])[];
            source: components["schemas"]["NewSource"];
            /** @description The transforms that process each record, in this order. */
            transforms?: (components["schemas"]["NewV8Transform"] | components["schemas"]["NewRedisSetFilterTransform"])[] | null;
        };
        /** @description A prices sink in a request. */
        NewPricesSink: {
            /** @description Names a Kafka sink's topic, `flow.<config_id>.<name>`; a prices sink has none. `dlq` is reserved. */
            name: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "prices";
            /** @description Returned only; ignored. */
            readonly uid?: unknown;
        };
        /** @description A filter in a request. A new filter may have the initial values of its set. */
        NewRedisSetFilterTransform: {
            /** @description Selects the tested value, for example `root = this.token_address`. */
            filter_expr: string;
            /** @description Your own name of the transform, unique in its configuration. PUT finds the transform by it. When omitted, a stored name is kept; null removes it. */
            name?: string | null;
            /** @description The initial values of a new filter's set; ignored for an existing filter. Never returned. */
            set_values?: string[] | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "redis_set_filter";
            /** @description The uid of the stored transform to update. A new transform gets a new uid; POST ignores this. */
            uid?: string | null;
            /** @description Returned only; ignored. */
            readonly warnings?: unknown;
        };
        /**
         * @description The source in a request.
         *
         *     The type may be omitted, because each chain has only one type of source.
         */
        NewSource: {
            /** @description Lowercase chain name, see GET /api/v1/flow/streams. */
            chain: string;
            /** @description Kind of record, see GET /api/v1/flow/streams. */
            entity: string;
            /**
             * @description Read the faster feed of the stream, where there is one.
             * @default false
             */
            is_zerolag?: boolean | null;
            /**
             * @description Where a new deployment starts: "latest", "earliest" or an RFC 3339 time since 1970.
             * @default latest
             */
            start_at?: (string | ("latest" | "earliest") | unknown) | null;
            /** @description A label that the catalog fixes for each chain: `pubsub` or `kafka`; set from the chain when omitted. It does not select the source: the operator's stream bindings say where the records come from. */
            type?: string | null;
        } | {
            /** @enum {unknown} */
            chain?: "polygon" | "base";
            /** @enum {unknown} */
            entity?: "log" | "decoded_log" | "erc20_token_transfer" | "erc721_token_transfer" | "erc1155_token_transfer";
            /** @enum {unknown} */
            type?: "pubsub" | null;
        } | {
            /** @enum {unknown} */
            chain?: "solana";
            /** @enum {unknown} */
            entity?: "nonvoting_transaction";
            /** @enum {unknown} */
            type?: "pubsub" | null;
        } | {
            /** @enum {unknown} */
            chain?: "hyperliquid";
            /** @enum {unknown} */
            entity?: "block" | "trade" | "fill" | "order" | "misc_event";
            /** @enum {unknown} */
            type?: "kafka" | null;
        };
        /**
         * @description A request for a trial.
         *
         *     It has a configuration, a sample of records, and the revision to compare the results with.
         */
        NewTrial: {
            /** @description The revision of the configuration `id` that processes the sample too: `deployed`, or its number. */
            against?: "deployed" | number | null;
            /** @description Returned only; ignored. */
            readonly created_at?: unknown;
            /**
             * @description What the pipeline is for.
             * @default
             */
            description?: string | null;
            /**
             * @description `summary` leaves the results of the single records out.
             * @default records
             */
            detail?: ("records" | "summary") | null;
            /** @description Your own id of the configuration, unique among yours. PUT without this keeps it; null removes it. */
            external_id?: string | null;
            /** @description The id of a stored configuration. The body is then checked as PUT does, and the filters that this configuration has are tested against their live values. */
            id?: unknown;
            /** @description The pipeline's name; need not be unique. */
            name: string;
            /** @description Returned only; ignored. */
            readonly owner_org_team_user_id?: unknown;
            pipeline_config: components["schemas"]["NewPipelineConfig"];
            /** @description Sample records, as JSON values; together at most 1 MiB. */
            records?: unknown[] | null;
            /** @description Returned only; ignored. */
            readonly revision?: unknown;
            /** @description In place of `records`: up to 10,000 records of the stream, together at most 16 MB. */
            sample?: components["schemas"]["StreamSample"] | null;
            /** @description Words to organise pipelines by. */
            tags?: string[] | null;
            /** @description Returned only; ignored. */
            readonly unreadable?: unknown;
            /** @description Returned only; ignored. */
            readonly updated_at?: unknown;
            /** @description Returned only; ignored. */
            readonly warnings?: unknown;
        };
        /** @description A script in a request. */
        NewV8Transform: {
            /** @description Your own name of the transform, unique in its configuration. PUT finds the transform by it. When omitted, a stored name is kept; null removes it. */
            name?: string | null;
            /** @description JavaScript or TypeScript that defines or exports a function `process(record)` (or `transform`), at most 1 MiB. */
            script: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "v8";
            /** @description The uid of the stored transform to update. A new transform gets a new uid; POST ignores this. */
            uid?: string | null;
            /** @description Returned only; ignored. */
            readonly warnings?: unknown;
        };
        /**
         * @description The status of a worker, in the words that Kubernetes uses for pods.
         * @enum {string}
         */
        ObservedWorkerStatus: "Pending" | "Running" | "CrashLoopBackOff" | "OOMKilled" | "Terminating";
        /** @description A record of a sink, or a dead letter. */
        OutputItem: {
            /** @description The record's headers. */
            headers: {
                [key: string]: string | null;
            };
            /** @description The headers whose values are not UTF-8. */
            headers_base64?: {
                [key: string]: string;
            } | null;
            /** @description The record's key. */
            key?: string | null;
            /** @description In place of `key`, when the key is not UTF-8. */
            key_base64?: string | null;
            offset: number;
            partition: number;
            /** @description The JSON value of the record, with all digits of its numbers. */
            record?: unknown;
            /** @description In place of `record`, when the value is not JSON. */
            record_base64?: string | null;
            /** @description The record's Kafka timestamp. */
            timestamp: string | null;
        };
        /** @description Records of a sink or dead letters, oldest first. */
        OutputRecords: {
            items: components["schemas"]["OutputItem"][];
        };
        /** @description A page of configurations. */
        OverviewBody: {
            /** @description The cursor of the next page; null on the last page. */
            cursor: string | null;
            /**
             * @description The start of the first minute that the counts of all items cover.
             * @example 2026-01-02T03:04:05.678Z
             */
            first_minute: string;
            /** @description The newest configuration first. */
            items: components["schemas"]["OverviewItem"][];
        };
        /**
         * @description A configuration in a list.
         *
         *     Members about its deployment are null while it is not deployed.
         */
        OverviewItem: {
            /** @description The mean age of the data over the last hour; null when nothing was measured. */
            avg_data_age_ms: number | null;
            /** @description The condition of the last rollout, as in GET …/deploy. */
            condition: components["schemas"]["Condition"] | null;
            /** @description Errors of processors and outputs. One count for each minute of the last hour, the oldest minute first; null when they are not known. */
            errors: number[] | null;
            external_id: string | null;
            id: string;
            /** @description Number of records in the source that are not processed yet. It is read in the background, so it is null in the first answers. */
            lag: number | null;
            /** @description One count for each minute of the last hour, the oldest minute first; null when they are not known. */
            messages_received: number[] | null;
            /** @description One count for each minute of the last hour, the oldest minute first; null when they are not known. */
            messages_sent: number[] | null;
            name: string;
            /** @description The number of the newest revision. */
            revision: number;
            /** @description The source of the newest revision; null when this version of Headwater can't read it. */
            source: components["schemas"]["SourceStream"] | null;
            /**
             * @description `draft`: not deployed; `failing`: the last rollout failed or was rolled back, or a worker is in a crash loop or has not been ready for 60 s; `unreadable`: this version of Headwater can't read it.
             * @enum {string}
             */
            state: "draft" | "deployed" | "paused" | "failing" | "unreadable";
            tags: string[];
            /**
             * @description The time when the newest revision was saved.
             * @example 2026-01-02T03:04:05.678Z
             */
            updated_at: string;
        };
        /** @description Percentiles of times; null when nothing was measured. */
        Percentiles: {
            p50: number | null;
            p90: number | null;
            p99: number | null;
            /**
             * @default ms
             * @constant
             */
            unit?: "ms";
        };
        /**
         * @description The validated pipeline of a configuration, with the uid of each transform and sink.
         *
         *     In this package, a field or variable `config` is a PipelineConfig; `config_id` is the id of the whole configuration.
         */
        PipelineConfig: {
            /**
             * @default at_least_once
             * @enum {string}
             */
            delivery?: "at_least_once" | "exactly_once";
            /** @default 1 */
            parallelism?: number | components["schemas"]["WorkerBounds"];
            sinks: (components["schemas"]["KafkaSink"] | components["schemas"]["PricesSink"])[];
            source: components["schemas"]["Source"];
            transforms?: (components["schemas"]["V8Transform"] | components["schemas"]["RedisSetFilterTransform"])[];
        };
        /** @description Prices between two successive powers of two. Whether a price counts depends on its band. */
        PriceBand: {
            /** @description Whether the band is established or next to an established band. All bands are accepted while none is established, and when the operator has switched the filter of outliers off. */
            accepted: boolean;
            /** @description The number of minutes since `counted_since` with a trade in this band. */
            active_minutes: number;
            /** @description Whether `active_minutes` are at least `required_minutes`. */
            established: boolean;
            last: components["schemas"]["PricePoint"];
            /** @description Prices below this one are in the band. */
            max_price: number;
            /** @description The lowest price of the band. */
            min_price: number;
        };
        /** @description How the statistics of a token are computed; empty for an unknown token. */
        PriceExplanation: {
            /** @description At most 50 accepted trades, newest first. The list has the last trade of each millisecond of the newest 1 to 2 hours (2 minutes for a token with many trades), and the last trade of each earlier hour. */
            accepted: components["schemas"]["PricePoint"][];
            /** @description At most 50 bands, the one with the most minutes first. */
            bands: components["schemas"]["PriceBand"][];
            chain: string;
            /** @description Only minutes after this time count for the bands. */
            counted_since: string | null;
            /** @description The latest accepted trade; null when the token has no price. */
            latest: components["schemas"]["PricePoint"] | null;
            percent_change_1h: number | null;
            percent_change_24h: number | null;
            /** @description Whether the latest price was computed from a price of the quote token that was more than an hour old. */
            quote_stale: boolean;
            /** @description The minutes with trades that make a band established. */
            required_minutes: number | null;
            /** @enum {string} */
            status: "ok" | "held" | "stale" | "unknown_token" | "unknown_chain";
            token_address: string;
            /** @description Likewise at most 50 trades that do not count. */
            unaccepted: components["schemas"]["UnacceptedPrice"][];
            windows: components["schemas"]["PriceWindow"][];
        };
        /** @description The prices of a token in the 25 to 26 hours before its newest trade. */
        PriceHistory: {
            chain: string;
            /** @description The last accepted trade of each hour, and of each 5 minutes of the last one to two hours (for a token with many trades only of the last minutes); oldest first. An interval without a trade has no point. */
            points: components["schemas"]["PricePoint"][];
            token_address: string;
        };
        /** @description Prices of a token in USD, and changes in percent. docs/prices.md defines each of them. */
        PriceItem: {
            chain: string;
            decimals: number;
            high_1h: number;
            high_24h: number;
            latest_price: number;
            low_1h: number;
            low_24h: number;
            /** @description The token's address as on chain; EVM addresses in lower case. */
            mint: string;
            /** @description Null when there was no price 1 h ago. */
            percent_change_1h: number | null;
            /** @description Null when there was no price 24 h ago. */
            percent_change_24h: number | null;
            /**
             * @description Time of the last trade.
             * @example 2026-01-02T03:04:05.678Z
             */
            timestamp: string;
        };
        /** @description The price of one trade, in USD. */
        PricePoint: {
            price: number;
            /** @example 2026-01-02T03:04:05.678Z */
            timestamp: string;
        };
        /** @description The price statistics of the requested tokens. */
        PriceStats: {
            /** @description Always null, since there is only one page. */
            cursor: string | null;
            /** @description The tokens that have a price, in the order of the request, with its duplicates. */
            items: components["schemas"]["PriceItem"][];
            /** @description How many tokens have no price, and why. */
            message: string;
            /** @description One status per token, in the order of the request. */
            statuses: components["schemas"]["PriceStatus"][];
        };
        /** @description Whether a token of the request has a price, and if not, why. */
        PriceStatus: {
            chain: string;
            /** @description The time of the first trade that is not accepted yet; omitted unless the status is `held`. */
            held_since?: string | null;
            /** @description True when the latest price was computed from a price of the quote token that was more than an hour old; otherwise omitted. */
            quote_stale?: boolean | null;
            /**
             * @description Tokens with the status `ok` or `held` have an item. `held` means that newer trades exist whose prices are not accepted yet.
             * @enum {string}
             */
            status: "ok" | "held" | "stale" | "unknown_token" | "unknown_chain";
            token_address: string;
        };
        /** @description The lowest and the highest accepted price of a window, and when they were traded last. */
        PriceWindow: {
            high: components["schemas"]["PricePoint"] | null;
            /** @description Null when the window has no trade; the statistics then show the latest price as low and high. */
            low: components["schemas"]["PricePoint"] | null;
            /**
             * @description Trades after this time count.
             * @example 2026-01-02T03:04:05.678Z
             */
            start: string;
            /** @enum {string} */
            window: "1h" | "24h";
        };
        /** @description A prices sink. Read the prices with POST /api/v1/developer/prices/stats. */
        PricesConnection: {
            name: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "prices";
            uid: string;
        };
        /**
         * @description Writes the records as ticks of the installation's token prices.
         *
         *     Needs the scope `prices:write`.
         */
        PricesSink: {
            /** @description Names a Kafka sink's topic, `flow.<config_id>.<name>`; a prices sink has none. `dlq` is reserved. */
            name: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "prices";
            /** @description Generated. It stays the same while the name stays the same. */
            readonly uid: string;
        };
        /** @description The body of every error response (RFC 9457). */
        ProblemDetails: {
            /**
             * @description The limit of an exceeded quota.
             * @default null
             */
            allowed?: number | null;
            /** @description What is wrong and what to do. */
            detail: string;
            /**
             * @description With status 422: one entry per fault.
             * @default null
             */
            errors?: components["schemas"]["Fault"][] | null;
            /** @description The path of the request. */
            instance: string;
            /** @description Also in the header X-Request-Id. */
            request_id: string;
            status: number;
            title: string;
            /** @example urn:headwater:problem:invalid-input */
            type: string;
            /**
             * @description Your usage of an exceeded quota; null when all owners share it.
             * @default null
             */
            used?: number | null;
        };
        /** @description The usage and the limit of one quota. */
        QuotaLimit: {
            /** @description The limit; null when there is none. */
            allowed: number | null;
            /** @enum {string} */
            name: "configurations" | "stored_bytes" | "script_bytes" | "deployments" | "workers" | "datasets" | "set_values";
            used: number;
        };
        /** @description All quotas of the owner of the API key. */
        QuotaLimits: {
            limits: components["schemas"]["QuotaLimit"][];
        };
        /** @description Response of GET /readyz when all dependencies are available. */
        Readiness: {
            /** @description `ok` or `unavailable`, by name. */
            dependencies: {
                [key: string]: string;
            };
            /**
             * @default ready
             * @constant
             */
            status?: "ready";
        };
        /** @description Why a record could not be processed, as in the headers of a dead letter. */
        RecordError: {
            attempts: number;
            column: number | null;
            /** @description The name of the error's class. */
            error: string;
            line: number | null;
            message: string;
        };
        /** @description A record of a stream. */
        RecordItem: {
            /** @description The record's key. */
            key?: string | null;
            /** @description In place of `key`, when the key is not UTF-8. */
            key_base64?: string | null;
            offset: number;
            partition: number;
            /** @description The JSON value of the record, with all digits of its numbers. */
            record?: unknown;
            /** @description In place of `record`, when the value is not JSON. */
            record_base64?: string | null;
            /** @description The record's Kafka timestamp. */
            timestamp: string | null;
        };
        /** @description Keeps a record when the selected value is in the transform's filter set. */
        RedisSetFilterTransform: {
            /** @description Selects the tested value, for example `root = this.token_address`. */
            filter_expr: string;
            /** @description Your own name of the transform, unique in its configuration. PUT finds the transform by it. When omitted, a stored name is kept; null removes it. */
            name?: string | null;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "redis_set_filter";
            uid: string;
        };
        /** @description A redrive that was accepted. */
        RedriveAccepted: {
            id: string;
            /** @description How many letters the redrive sends. */
            requested: number;
        };
        /** @description The state of a redrive. The counts are counts of letters, not of outputs. */
        RedriveBody: {
            delivered: number;
            dropped: number;
            failed: number;
            requested: number;
            /**
             * @description `running` also while the redrive waits for an earlier one, or for the end of a pause; `stopped` when the pipeline was torn down before the end.
             * @enum {string}
             */
            state: "running" | "done" | "stopped";
        };
        /** @description How many letters a redrive would send. */
        RedriveCount: {
            requested: number;
        };
        /**
         * @description The dead letters to redrive.
         *
         *     A request has exactly one of `ids`, `all`, or `error` and `transform_uid` (one or both).
         */
        RedriveRequest: {
            /** @description All letters. */
            all?: true | null;
            /**
             * @description Only count the letters.
             * @default false
             */
            dry_run?: boolean;
            /** @description Letters with this class of error. */
            error?: string | null;
            /** @description The ids of letters. Letters that were redriven already are sent again. */
            ids?: string[] | null;
            /** @description Letters of this transform (its uid) or sink (its name). */
            transform_uid?: string | null;
        };
        /** @description When a letter was redriven, and what became of it. */
        RedrivenBody: {
            /**
             * @description `delivered`: an output was made; `dropped`: the transforms made none; `failed`: the record failed again, and is a new dead letter.
             * @enum {string}
             */
            outcome: "delivered" | "dropped" | "failed";
            /** @example 2026-01-02T03:04:05.678Z */
            time: string;
        };
        /** @description A token of the request. */
        RequestedToken: {
            /** @description Lowercase chain name. */
            chain: string;
            /** @description Contract address or mint; upper and lower case are the same. */
            token_address: string;
        };
        /** @description The state of a deployment after a rollback to an earlier revision. */
        RestoredDeployment: {
            /** @description `Stable`, `RollingOut`, `RolledBack` or `Failed`. */
            condition: string;
            config_id: string;
            dead_letter: components["schemas"]["DeadLetterTopic"];
            desired_revision: number;
            message: string;
            /** @description The reason for the condition; empty when there is none. */
            reason: string;
            /** @description The revision that runs; null until a revision runs. */
            revision: number | null;
            /** @description The last rewind; null when there was none. */
            rewind: components["schemas"]["LastRewind"] | null;
            /** @description How the number of workers follows the load. Omitted without bounds in `parallelism`. */
            scaling?: components["schemas"]["WorkerScaling"] | null;
            sinks: (components["schemas"]["SinkConnection"] | components["schemas"]["PricesConnection"])[];
            /** @enum {string} */
            status: "deployed" | "deploying" | "pausing" | "paused" | "failed" | "terminating";
            /** @description Warnings about the save: exceptions that new or changed scripts threw for the stream's example record, fields in filters that the stream does not have, `set_values` that were ignored, and filters that were removed. Omitted when there are none. */
            warnings?: components["schemas"]["Fault"][] | null;
            /** @description The number of workers that should run; 0 while the pipeline is paused. */
            workers: number;
        };
        /** @description The state of a deployment that was resumed, and the connection details of its sinks. */
        ResumedDeployment: {
            /** @description `Stable`, `RollingOut`, `RolledBack` or `Failed`. */
            condition: string;
            config_id: string;
            dead_letter: components["schemas"]["DeadLetterTopic"];
            desired_revision: number;
            /** @description The offsets that retention removed from the source while the pipeline was paused; empty when there are none. */
            gaps: components["schemas"]["Gap"][];
            message: string;
            /** @description The reason for the condition; empty when there is none. */
            reason: string;
            /** @description The revision that runs; null until a revision runs. */
            revision: number | null;
            /** @description The last rewind; null when there was none. */
            rewind: components["schemas"]["LastRewind"] | null;
            /** @description How the number of workers follows the load. Omitted without bounds in `parallelism`. */
            scaling?: components["schemas"]["WorkerScaling"] | null;
            sinks: (components["schemas"]["SinkConnection"] | components["schemas"]["PricesConnection"])[];
            /** @enum {string} */
            status: "deployed" | "deploying" | "pausing" | "paused" | "failed" | "terminating";
            /** @description The number of workers that should run; 0 while the pipeline is paused. */
            workers: number;
        };
        /**
         * @description The differences between two revisions, as unified diffs.
         *
         *     `-` marks the lines of `against`.
         */
        RevisionComparison: {
            /** @description The diff of the members that you write, as JSON; each script is replaced by its SHA-256. Empty when they are equal. */
            diff: string;
            /** @description The diff of each script that differs, by the uid of its transform. */
            scripts: {
                [key: string]: string;
            };
        };
        /** @description One revision of a configuration, without its content. */
        RevisionItem: {
            /** @description The members that differ from the revision before: `name`, `description`, `tags`, `external_id`, or a member of `pipeline_config`. Empty for revision 1. */
            changed: string[];
            /** @description The condition that the revision's last rollout reached: `Stable`, `RollingOut`, `RolledBack` or `Failed`; null when the revision was never deployed. */
            condition: string | null;
            /** @description When a deploy started the revision last; null when the revision was never deployed. */
            deployed_at: string | null;
            revision: number;
            /** @example 2026-01-02T03:04:05.678Z */
            saved_at: string;
            /** @description The id of the API key that saved the revision; null when an older version of Headwater saved it. */
            saved_by: string | null;
        };
        /** @description One page of the stored revisions of a configuration. */
        RevisionList: {
            /** @description Send it as `cursor` to get the next page; null on the last page. */
            cursor: string | null;
            /** @description Newest first. */
            items: components["schemas"]["RevisionItem"][];
        };
        /** @description Where to rewind a pipeline to. */
        RewindRequest: {
            to: ("latest" | "earliest") | string | {
                [key: string]: number;
            };
        };
        /** @description A pipeline that was rewound. */
        RewoundPipeline: {
            message: string;
            /** @description The position of each partition that was moved; empty for a stream from Google Pub/Sub. */
            positions: {
                [key: string]: components["schemas"]["MovedPosition"];
            };
        };
        /** @description The request body of a rollback. */
        Rollback: {
            /** @description The revision to save again. */
            revision: number;
        };
        /** @description A filter that was just saved. */
        SavedRedisSetFilterTransform: {
            /** @description Selects the tested value, for example `root = this.token_address`. */
            filter_expr: string;
            /** @description Your own name of the transform, unique in its configuration. PUT finds the transform by it. When omitted, a stored name is kept; null removes it. */
            name?: string | null;
            /** @constant */
            type: "redis_set_filter";
            uid: string;
            /** @description Warnings about the save: exceptions that new or changed scripts threw for the stream's example record, fields in filters that the stream does not have, `set_values` that were ignored, and filters that were removed. Omitted when there are none. */
            warnings?: components["schemas"]["Fault"][] | null;
        };
        /** @description A script that was just saved. */
        SavedV8Transform: {
            /** @description Your own name of the transform, unique in its configuration. PUT finds the transform by it. When omitted, a stored name is kept; null removes it. */
            name?: string | null;
            /** @description JavaScript or TypeScript that defines or exports a function `process(record)` (or `transform`), at most 1 MiB. */
            script: string;
            /** @constant */
            type: "v8";
            uid: string;
            /** @description Warnings about the save: exceptions that new or changed scripts threw for the stream's example record, fields in filters that the stream does not have, `set_values` that were ignored, and filters that were removed. Omitted when there are none. */
            warnings?: components["schemas"]["Fault"][] | null;
        };
        /** @description A one-time code. */
        SignInRequest: {
            /** @description The code at the end of the link, after `#code=`. */
            code: string;
        };
        /** @description A new API key. Its text is shown only in this response. */
        SignedInBody: {
            /** @description When the key expires; null when it does not. */
            expires_at: string | null;
            /** @description The text of the key, for the header `X-API-Key`. */
            key: string;
            /** @description The id of the key: the 12 characters after `hw_live_`. */
            key_id: string;
            /** @description The owner of the key. All keys of an owner see the same resources. */
            owner: string;
            scopes: string[];
        };
        /** @description The connection details of a sink's topic, and the sink's members that configure it. */
        SinkConnection: {
            bootstrap_servers: string;
            /** @description What Kafka does with old records; default: `delete`. With `compact` Kafka keeps the newest record of each key, and a record without a key is a dead letter. */
            cleanup_policy?: ("delete" | "compact" | "compact,delete" | "delete,compact") | null;
            /** @description How the records are compressed; default: `lz4`. */
            compression?: ("none" | "gzip" | "snappy" | "lz4" | "zstd") | null;
            /** @description The suggested consumer group. Any group whose name begins with `dep-<deployment id>.` works too. */
            consumer_group: string;
            name: string;
            /** @description Partitions of the topic; default: as many as the source has. A record of the source's partition p goes to partition p modulo this number. The number can be increased, but not decreased. */
            partitions?: number | null;
            /** @description The user's password; null where `username` is null. */
            password: string | null;
            /** @description Approximately how many bytes the topic keeps per partition. */
            retention_bytes?: number | null;
            /** @description How long the topic keeps a record, in milliseconds. */
            retention_ms?: number | null;
            /** @description Null where the listener requires no login. */
            sasl_mechanism: string | null;
            security_protocol: string;
            snippets: components["schemas"]["Snippets"];
            topic: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "kafka";
            uid: string;
            /** @description The Kafka user to log in as; null where the operator of Kafka has configured no user for readers. */
            username: string | null;
        };
        /** @description Complete programs that read the sink's topic. */
        Snippets: {
            java: string;
            kcat: string;
            node: string;
            python: string;
        };
        /**
         * @description The stream that a pipeline reads.
         *
         *     services/pipeline_checker.py checks that the catalog has the stream.
         */
        Source: {
            chain: string;
            entity: string;
            /** @default false */
            is_zerolag?: boolean;
            /**
             * @description "latest", "earliest" or an RFC 3339 time.
             * @default latest
             */
            start_at?: string;
            /** @enum {string} */
            type: "kafka" | "pubsub";
        };
        /** @description The stream that a pipeline reads. */
        SourceStream: {
            chain: string;
            entity: string;
        };
        /** @description A stream of records that a pipeline can read. */
        Stream: {
            chain: string;
            description: string;
            entity: string;
            /** @description The field with the record's own time; null when records have none. */
            event_time: string | null;
            /** @description An example record. */
            example: {
                [key: string]: unknown;
            };
            /** @description Whether this installation has the faster feed of the stream, which `is_zerolag: true` selects. */
            has_zerolag: boolean;
            /** @description Fields that identify a record within its stream. A dot separates the members of a nested object. */
            key: string[];
            /** @description Price recipes that read this stream. */
            prices: string[];
            /** @description JSON Schema of a record. */
            record_schema: {
                [key: string]: unknown;
            };
            /**
             * @description The value of `source.type` for this chain. It does not say where the records come from.
             * @enum {string}
             */
            type: "pubsub" | "kafka";
        };
        /** @description Records of a stream, oldest first. */
        StreamRecords: {
            items: components["schemas"]["RecordItem"][];
        };
        /** @description A sample of the configuration's own stream. */
        StreamSample: {
            /** @description The number of records from `from` on. */
            count?: number | null;
            /** @description The first `count` records from this time on (RFC 3339). */
            from?: string | null;
            /** @description The newest records of all partitions, by their Kafka timestamps. */
            last?: number | null;
            /** @description The records with these positions, each as `<partition>/<offset>`. */
            positions?: string[] | null;
        } | {
            count?: null;
            from?: null;
            last: number;
            positions?: null;
        } | {
            count: number;
            from: string;
            last?: null;
            positions?: null;
        } | {
            count?: null;
            from?: null;
            last?: null;
            positions: unknown[];
        };
        /** @description A page of tokens. */
        TokenList: {
            /** @description The cursor of the next page; null on the last page. */
            cursor: string | null;
            /** @description Sorted by chain and address. */
            items: components["schemas"]["ListedToken"][];
            /** @description Whether a prices worker runs, which stores the trades. It is read in the background, so it is null in the first answers, and when Kafka has been unavailable for a minute. */
            worker_runs: boolean | null;
        };
        /** @description One metric of one transform over time. */
        TransformMetricSeries: {
            /** @enum {string} */
            metric_type: "received" | "sent" | "dropped" | "errors" | "processing_latency";
            /** @description Ordered by time; empty when nothing was measured. */
            points: components["schemas"]["MetricPoint"][];
            transform_uid: string;
        };
        /** @description The metrics of each transform of a deployment over time. */
        TransformSeries: {
            config_id: string;
            /** @description The transforms of the running pipeline in their order, and then the transforms that were removed but received records in the time range. */
            metrics: components["schemas"]["TransformMetricSeries"][];
        };
        /** @description The totals of one transform for all records. */
        TransformTotalsBody: {
            dropped: number;
            errors: number;
            /** @description The first lines of `console.log`, at most 100. */
            logs: string[];
            received: number;
            /** @description Number of records that the transform passed on. */
            sent: number;
            type: string;
            /** @description The `uid` of the transform; a new transform gets another one when it is saved. */
            uid: string;
        };
        /** @description The warnings of a trial, and the results of its records. */
        TrialBody: {
            /** @description Present when the request has `against`. */
            comparison?: components["schemas"]["ComparisonBody"] | null;
            /** @description In the order of the sample; left out by `detail: summary`. */
            records?: components["schemas"]["TrialRecordBody"][] | null;
            /** @description Present when the request has `sample`. */
            sample?: components["schemas"]["TrialSampleBody"] | null;
            /** @description All counts are 0 when no record was read. */
            summary?: components["schemas"]["TrialSummaryBody"] | null;
            /** @description Exceptions that the scripts threw for the stream's example record, and other warnings as in the response to a save, such as `set_values` that were ignored. */
            warnings: components["schemas"]["Fault"][];
        };
        /** @description The result of one sample record. */
        TrialRecordBody: {
            /** @description The record, when it was read from the stream. */
            input?: components["schemas"]["RecordItem"] | null;
            /**
             * @description `sent` when any output reaches the sinks; `unfinished` when the time limit, the size limit of the response, or the size limit of the outputs of this record was reached (see `reason`).
             * @enum {string}
             */
            outcome: "sent" | "dropped" | "error" | "unfinished";
            /** @description The records that every sink gets. A record that is not JSON is `{"record_base64": …}`. */
            outputs: unknown[];
            /** @description Why the outcome is `unfinished`; otherwise empty. */
            reason: string;
            /** @description One step per transform, up to the last transform that received a record. */
            steps: components["schemas"]["TrialStepBody"][];
        };
        /** @description How many records of the stream were read and processed. */
        TrialSampleBody: {
            /** @description Number of records that all transforms (of both revisions) have processed. */
            done: number;
            read: number;
            /** @description Why fewer records were read or done than requested; otherwise empty. */
            reason: string;
            requested: number;
            /** @description Number of records in `records`: as many as a response of 8 MiB has room for. */
            shown: number;
        };
        /** @description The result of one transform for a sample record. */
        TrialStepBody: {
            dropped: number;
            errors: components["schemas"]["RecordError"][];
            /** @description Lines of `console.log`; empty for a record that was processed together with others, as most are in a sample of more than 200 records. */
            logs: string[];
            /** @description The records that the transform passed on, in order. A record that is not JSON is `{"record_base64": …}`. */
            outputs: unknown[];
            /** @description Number of records that the transform received: one, or more after a script that returned several. */
            received: number;
            type: string;
        };
        /** @description The results of all records that were processed. */
        TrialSummaryBody: {
            dropped: number;
            error: number;
            /** @description The most frequent errors first, at most 20. */
            errors: components["schemas"]["ErrorGroupBody"][];
            sent: number;
            transforms: components["schemas"]["TransformTotalsBody"][];
            unfinished: number;
        };
        /** @description A trade that does not count. */
        UnacceptedPrice: {
            price: number;
            reason: string;
            /**
             * @description `held`: it is newer than the latest accepted trade, and counts when its band is accepted.
             * @enum {string}
             */
            status: "held" | "rejected";
            /** @example 2026-01-02T03:04:05.678Z */
            timestamp: string;
        };
        /** @description Runs a JavaScript function `process(record)` in the sandbox. */
        V8Transform: {
            /** @description Your own name of the transform, unique in its configuration. PUT finds the transform by it. When omitted, a stored name is kept; null removes it. */
            name?: string | null;
            /** @description JavaScript or TypeScript that defines or exports a function `process(record)` (or `transform`), at most 1 MiB. */
            script: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "v8";
            uid: string;
        };
        /** @description The number of values that an add request has added. */
        ValuesAdded: {
            added: number;
            /** @description The set's version after the write. */
            version: number;
        };
        /** @description The number of values that a remove request has removed. */
        ValuesRemoved: {
            removed: number;
            /** @description The set's version after the write. */
            version: number;
        };
        /** @description The bounds between which the number of workers follows the load. */
        WorkerBounds: {
            /** @description The greatest number of workers, at least `min`. */
            max: number;
            /** @description The least number of workers. */
            min: number;
        };
        /** @description The state of one worker. */
        WorkerEntry: {
            is_crash_looping: boolean;
            is_oom_killed: boolean;
            is_ready: boolean;
            name: string;
            /** @description The reason for the status; empty when there is none. For 15 minutes after the worker has skipped records that were deleted from the source before it read them, the reason also names these records. */
            reason: string;
            /** @description A high value shows instability. */
            restart_count: number;
            /** @example 2026-01-02T03:04:05.678Z */
            start_time: string;
            status: components["schemas"]["ObservedWorkerStatus"];
        };
        /** @description How the number of workers follows the load. */
        WorkerScaling: {
            /** @description When the number was changed last; null until it is changed. */
            changed_at: string | null;
            /** @description The greatest number of workers. */
            max: number;
            /** @description The least number of workers. */
            min: number;
            /** @description Why the number was changed last; empty until it is changed. */
            reason: string;
            /** @description The present number of workers; a paused pipeline is resumed with it. */
            workers: number;
        };
        /** @description The workers of a deployment, and how many are in which state. */
        WorkersHealth: {
            crashing_workers: number;
            healthy_workers: number;
            oom_killed_workers: number;
            total_workers: number;
            unhealthy_workers: number;
            workers: components["schemas"]["WorkerEntry"][];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
