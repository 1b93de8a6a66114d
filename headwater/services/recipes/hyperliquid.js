// COINS: coin → decimals of its sizes
const PART = 2 ** 24;

// Trades of one moment are told apart by their tid, which has 50 bits. Those of a node's node_trades have none.
function numberOf(text) {
  let number = 0;
  for (let at = 0; at < text.length; at++) number = (number * 31 + text.charCodeAt(at)) % 2 ** 48;
  return number;
}

function process(trade) {
  const decimals = COINS[trade.coin];
  if (decimals === undefined) return null;
  const price = Number(trade.px);
  const id = trade.tid == null ? numberOf([trade.hash, trade.users, trade.px, trade.sz].join()) : Number(trade.tid);
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
