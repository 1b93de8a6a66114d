// POOLS: pool → [token, its decimals, the quote's decimals, 1 when the token is token0 else 0, quote]
// quote: the address of the token that the pool is quoted in; null when that token counts as one US dollar
const SWAP = "0xc42079f94a6350d7e6235f29174924f928cc2ac818eb64fed8004e115fbcca67";
const word = (data, n) => BigInt("0x" + data.slice(2 + 64 * n, 66 + 64 * n));
const abs = (n) => Number(BigInt.asIntN(256, n) < 0n ? -BigInt.asIntN(256, n) : n);

// A decoded log has the parameters by name; a raw log has them as words of its data.
function decodeSwap(record) {
  if (record.params) {
    const { sqrtPriceX96, amount0, amount1 } = record.params;
    return record.name === "Swap" && sqrtPriceX96 && [sqrtPriceX96, amount0, amount1].map((n) => BigInt(n));
  }
  return record.topic0 === SWAP && [2, 0, 1].map((n) => word(record.data, n));
}

function process(record) {
  const pool = POOLS[record.address];
  const decoded = pool && !record.removed && decodeSwap(record);
  if (!decoded) return null;
  const [token, decimals, quoteDecimals, isFirst, quote] = pool;
  const [root, amount0, amount1] = decoded;
  if (root === 0n) return null;
  // The pool's price after the swap, in raw token1 per raw token0. It is more precise than the amounts of a small swap.
  const raw = (Number(root) / 2 ** 96) ** 2;
  const price = (isFirst ? raw : 1 / raw) * 10 ** (decimals - quoteDecimals);
  const quoteAmount = abs(isFirst ? amount1 : amount0) / 10 ** quoteDecimals;
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
