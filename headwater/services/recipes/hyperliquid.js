// COINS: coin → decimals of its sizes
const PART = 2 ** 24;

function process(trade) {
  const decimals = COINS[trade.coin];
  if (decimals === undefined) return null;
  const price = Number(trade.px);
  const id = Number(trade.tid ?? 0); // 50 bits; it tells trades of one moment apart
  return {
    chain: CHAIN,
    token_address: trade.coin,
    price_usd: price,
    timestamp: trade.time,
    decimals,
    volume_usd: price * Number(trade.sz),
    block_number: Math.floor(id / PART),
    log_index: id % PART,
  };
}
