// POOLS: whirlpool → [token, its decimals, the quote's decimals, 1 when the token is token A else 0, quote]
// quote: the address of the token that the pool is quoted in; null when that token counts as one US dollar
const WHIRLPOOLS = "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc";
// The index of the whirlpool among the accounts, by the discriminator of the instructions swap and swap_v2.
const SWAPS = { f8c69e91e17587c8: 2, "2b04ed0b1ac91e62": 4 };
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
  const kind = TOKEN_PROGRAMS.includes(program(instruction)) && instruction.data_hex.slice(0, 2);
  const destination = TRANSFERS[kind];
  const { data_hex, accounts } = instruction;
  return destination && { amount: littleEndian(data_hex.slice(2, 18)), from: accounts[0], to: accounts[destination] };
}

function process(transaction) {
  if (transaction.success === false || transaction.err) return null;
  const ticks = [];
  const executed = inExecutionOrder(transaction);
  executed.forEach((instruction, number) => {
    const position = program(instruction) === WHIRLPOOLS && SWAPS[instruction.data_hex.slice(0, 16)];
    const pool = position && POOLS[instruction.accounts[position]];
    if (pool) ticks.push(...ticksOfSwap(transaction, pool, position, instruction, executed.slice(number + 1), number));
  });
  return ticks.slice(0, 10);
}

// A swap transfers the paid tokens into one vault of the pool and then the bought tokens out of the other.
function ticksOfSwap(transaction, pool, position, instruction, after, number) {
  const [paid, bought] = after.map(transfer).filter(Boolean);
  if (!paid || !bought || paid.amount < MIN_RAW_AMOUNT || bought.amount < MIN_RAW_AMOUNT) return [];
  const [vaultA, vaultB] = (position === 2 ? [4, 6] : [8, 10]).map((index) => instruction.accounts[index]);
  const isAToB = paid.to === vaultA && bought.from === vaultB;
  // Transfers that do not match the vaults do not belong to this swap. The transfers of this swap are then of a kind
  // that this script can't read, such as transfers with a fee.
  if (!isAToB && !(paid.to === vaultB && bought.from === vaultA)) return [];
  const [a, b] = isAToB ? [paid.amount, bought.amount] : [bought.amount, paid.amount];
  const [token, decimals, quoteDecimals, isFirst, quote] = pool;
  const [own, other] = isFirst ? [a, b] : [b, a];
  const sum = Number(other) / 10 ** quoteDecimals;
  const price = sum / (Number(own) / 10 ** decimals);
  return [{
    chain: CHAIN,
    token_address: token,
    ...(quote === null ? { price_usd: price, volume_usd: sum } : { price_quote: price, quote_address: quote }),
    timestamp: transaction.block_timestamp,
    decimals,
    block_number: transaction.block_slot,
    log_index: transaction.txn_index * 256 + number,
  }];
}
