// POOLS: pool → [token, its decimals, the quote's decimals, 1 when the token is token0 else 0, quote]
// quote: the address of the token that the pool is quoted in; null when that token counts as one US dollar
const SWAP = "0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822";
const MIN_RAW_AMOUNT = 1000n; // raw units of each side: with fewer, rounding moves the price by more than 0.1 %
const word = (data, n) => BigInt("0x" + data.slice(2 + 64 * n, 66 + 64 * n));
const abs = (n) => (n < 0n ? -n : n);

// A decoded log has the parameters by name; a raw log has them as words of its data.
function decodeSwap(record) {
  if (record.params) {
    const { amount0In, amount1In, amount0Out, amount1Out } = record.params;
    return record.name === "Swap" && amount0In && [amount0In, amount1In, amount0Out, amount1Out].map((n) => BigInt(n));
  }
  return record.topic0 === SWAP && [0, 1, 2, 3].map((n) => word(record.data, n));
}

function process(record) {
  const pool = POOLS[record.address];
  const decoded = pool && !record.removed && decodeSwap(record);
  if (!decoded) return null;
  const [token, decimals, quoteDecimals, isFirst, quote] = pool;
  const amounts = [abs(decoded[0] - decoded[2]), abs(decoded[1] - decoded[3])];
  if (amounts.some((amount) => amount < MIN_RAW_AMOUNT)) return null;
  const [tokenRaw, quoteRaw] = isFirst ? amounts : amounts.reverse();
  const quoteAmount = Number(quoteRaw) / 10 ** quoteDecimals;
  const price = quoteAmount / (Number(tokenRaw) / 10 ** decimals);
  return {
    chain: CHAIN,
    token_address: token,
    ...(quote === null ? { price_usd: price, volume_usd: quoteAmount } : { price_quote: price, quote_address: quote }),
    timestamp: record.block_timestamp,
    decimals,
    block_number: record.block_number,
    log_index: record.log_index,
  };
}
