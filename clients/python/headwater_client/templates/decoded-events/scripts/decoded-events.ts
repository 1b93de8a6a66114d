type Log = { name: string; address: string; params: Record<string, unknown>; [member: string]: unknown };

export function process(log: Log) {
  const { name, address, params, transaction_hash, log_index, block_number, block_timestamp } = log;
  return { event: name, contract: address, ...params, transaction_hash, log_index, block_number, block_timestamp };
}
