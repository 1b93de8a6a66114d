// COINS: coin → decimals of its sizes
const PART = 2 ** 24;

// Trades of one block are in the order of execution, which trade_index has. Records of older versions lack it: they are
// told apart by their tid, which has 50 bits, or by what they have in its place.
function orderOf(trade) {
  if (trade.trade_index != null) return [trade.block_number ?? 0, trade.trade_index];
  const id = trade.tid == null ? numberOf([trade.hash, trade.users, trade.px, trade.sz].join()) : Number(trade.tid);
  return [Math.floor(id / PART), id % PART];
}

function numberOf(text) {
  let number = 0;
  for (let at = 0; at < text.length; at++) number = (number * 31 + text.charCodeAt(at)) % 2 ** 48;
  return number;
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
