// POOLS: whirlpool → [token, its decimals, the quote's decimals, 1 when the token is token A else 0, quote]
// quote: the address of the token that the pool is quoted in; null when that token counts as one US dollar
const WHIRLPOOLS = "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc";
// The indexes of the whirlpool and its vaults among the accounts, by the discriminator of the instructions swap and swap_v2.
const SWAPS = {
  f8c69e91e17587c8: { pool: 2, vaultA: 4, vaultB: 6 },
  "2b04ed0b1ac91e62": { pool: 4, vaultA: 8, vaultB: 10 },
};
const MAX_SWAPS = 10; // The other swaps of a transaction are ignored, as docs/prices.md says.
const TOKEN_PROGRAMS = ["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"];
// The index of the destination among the accounts, by the type of the instructions Transfer and TransferChecked.
const TRANSFERS = { "03": 1, "0c": 2 };
const MIN_RAW_AMOUNT = 1000n; // raw units of each side: with fewer, rounding moves the price by more than 0.1 %

const littleEndian = (hex) => BigInt("0x" + (hex.match(/../g) ?? ["00"]).reverse().join(""));
const program = (instruction) => instruction.program_id;

// The instructions of a transaction in the order of execution: inner instructions follow the instruction that called them.
function inExecutionOrder(transaction) {
  return transaction.instructions.flatMap((outer) => [
    outer,
    ...(transaction.inner_instructions ?? []).filter((inner) => inner.instruction_index === outer.instruction_index),
  ]);
}

function transfer(instruction) {
  if (!TOKEN_PROGRAMS.includes(program(instruction))) return null;
  const { data_hex, accounts } = instruction;
  const destination = TRANSFERS[data_hex.slice(0, 2)];
  if (destination === undefined) return null;
  return { amount: littleEndian(data_hex.slice(2, 18)), from: accounts[0], to: accounts[destination] };
}

function process(transaction) {
  if (transaction.success === false || transaction.err) return null;
  const ticks = [];
  const executed = inExecutionOrder(transaction);
  executed.forEach((instruction, number) => {
    if (program(instruction) !== WHIRLPOOLS) return;
    const indexes = SWAPS[instruction.data_hex.slice(0, 16)];
    const pool = indexes && POOLS[instruction.accounts[indexes.pool]];
    if (!pool) return;
    const vaults = [instruction.accounts[indexes.vaultA], instruction.accounts[indexes.vaultB]];
    ticks.push(...ticksOfSwap(transaction, pool, vaults, executed.slice(number + 1), number));
  });
  return ticks.slice(0, MAX_SWAPS);
}

// A swap transfers the paid tokens into one vault of the pool and then the bought tokens out of the other.
function ticksOfSwap(transaction, pool, [vaultA, vaultB], after, number) {
  const [paid, bought] = after.map(transfer).filter(Boolean);
  if (!paid || !bought || paid.amount < MIN_RAW_AMOUNT || bought.amount < MIN_RAW_AMOUNT) return [];
  const isAToB = paid.to === vaultA && bought.from === vaultB;
  // Transfers that do not match the vaults do not belong to this swap. The transfers of this swap are then of a kind
  // that this script can't read, such as transfers with a fee.
  if (!isAToB && !(paid.to === vaultB && bought.from === vaultA)) return [];
  const [a, b] = isAToB ? [paid.amount, bought.amount] : [bought.amount, paid.amount];
  const [token, decimals, quoteDecimals, isFirst, quote] = pool;
  const [tokenRaw, quoteRaw] = isFirst ? [a, b] : [b, a];
  const quoteAmount = Number(quoteRaw) / 10 ** quoteDecimals;
  const price = quoteAmount / (Number(tokenRaw) / 10 ** decimals);
  return [{
    chain: CHAIN,
    token_address: token,
    ...(quote === null ? { price_usd: price, volume_usd: quoteAmount } : { price_quote: price, quote_address: quote }),
    timestamp: transaction.block_timestamp,
    decimals,
    block_number: transaction.block_slot,
    // 24 bits: 16 for the transaction and 8 for the instruction. A transaction executes at most 64 instructions.
    log_index: transaction.txn_index * 256 + number,
  }];
}
