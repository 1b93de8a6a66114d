type Transfer = { amount_str: string | null; [member: string]: unknown };

export function process(transfer: Transfer) {
  const { from_address, to_address, token_address, token_symbol, amount_str, usd_amount } = transfer;
  const { transaction_hash, log_index, block_timestamp } = transfer;
  return {
    from_address, to_address, token_address, token_symbol, usd_amount,
    amount: amount_str, // a decimal number as text keeps all digits
    transaction_hash, log_index, block_timestamp,
  };
}
