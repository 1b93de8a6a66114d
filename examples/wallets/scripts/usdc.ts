type Transfer = { raw_amount_str: string };

export function process(t: Transfer) {
  return { ...t, usdc: Number(BigInt(t.raw_amount_str)) / 1e6 };
}
