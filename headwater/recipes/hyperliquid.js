// COINS: coin → decimals of its sizes
// Ticks of the same time are ordered by block_number and log_index, and log_index has 24 bits. The id of a trade (tid)
// has up to 50 bits: when the tid gives the order, its high bits are in block_number and its low 24 bits in log_index.
const INDEX_SIZE = 2 ** 24;

// trade_index orders the trades of one block as they were executed. Records of older versions have no trade_index; they
// are ordered by tid (50 bits) or, without tid, by a hash of their members.
function orderOf(trade) {
  if (trade.trade_index != null) return [trade.block_number ?? 0, trade.trade_index];
  const id = trade.tid == null ? hashOf([trade.hash, trade.users, trade.px, trade.sz].join()) : Number(trade.tid);
  return [Math.floor(id / INDEX_SIZE), id % INDEX_SIZE];
}

function hashOf(text) {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) % 2 ** 48;
  return hash;
}

function process(trade) {
  const decimals = COINS[trade.coin];
  if (decimals === undefined) return null;
  const price = Number(trade.px);
  const [block, index] = orderOf(trade);
  return {
    chain: CHAIN,
    token_address: trade.coin,
    price_usd: price,
    timestamp: trade.time,
    decimals,
    volume_usd: price * Number(trade.sz),
    block_number: block,
    log_index: index,
  };
}
