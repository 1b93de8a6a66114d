type Transfer = { amount: number | null; from_address: string; to_address: string; [member: string]: unknown };

const LARGE = 100_000; // units of the token

export function process(transfer: Transfer) {
  if (transfer.amount === null || transfer.amount < LARGE) return null;
  const { token_symbol, from_address, to_address, amount, usd_amount, transaction_hash, block_timestamp } = transfer;
  return { token_symbol, from_address, to_address, amount, usd_amount, transaction_hash, block_timestamp };
}
