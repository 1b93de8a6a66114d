type Swap = { name: string; params: Record<string, string>; [member: string]: unknown };

// All pools of values/price-feed.csv have this token as token0, and one US dollar as token1.
const TOKEN = "0x4200000000000000000000000000000000000006";
const TOKEN_DECIMALS = 18, DOLLAR_DECIMALS = 6;

export function process(log: Swap) {
  if (log.name !== "Swap" || log.params.sqrtPriceX96 === undefined) return null;
  const root = Number(BigInt(log.params.sqrtPriceX96)) / 2 ** 96;
  return {
    chain: "base",
    token_address: TOKEN,
    price_usd: root * root * 10 ** (TOKEN_DECIMALS - DOLLAR_DECIMALS),
    timestamp: log.block_timestamp,
    decimals: TOKEN_DECIMALS,
    block_number: log.block_number,
    log_index: log.log_index,
  };
}
