"""The event ABIs of the most common logs; comments name the standards and contracts."""

from typing import Final

from headwater.ingest.evm.abi import Event, event_of_text

_TEXT: Final = """
# ERC-20
Transfer(address indexed from, address indexed to, uint256 value)
Approval(address indexed owner, address indexed spender, uint256 value)
# ERC-721: the same signatures with one more topic
Transfer(address indexed from, address indexed to, uint256 indexed tokenId)
Approval(address indexed owner, address indexed approved, uint256 indexed tokenId)
ApprovalForAll(address indexed owner, address indexed operator, bool approved)
# ERC-1155
TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value)
TransferBatch(address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values)
URI(string value, uint256 indexed id)
# WETH9
Deposit(address indexed dst, uint256 wad)
Withdrawal(address indexed src, uint256 wad)
# Uniswap v2: factory, pair
PairCreated(address indexed token0, address indexed token1, address pair, uint256 pairCount)
Mint(address indexed sender, uint256 amount0, uint256 amount1)
Burn(address indexed sender, uint256 amount0, uint256 amount1, address indexed to)
Swap(address indexed sender, uint256 amount0In, uint256 amount1In, uint256 amount0Out, uint256 amount1Out, address indexed to)
Sync(uint112 reserve0, uint112 reserve1)
# Uniswap v3: factory, pool, position manager
PoolCreated(address indexed token0, address indexed token1, uint24 indexed fee, int24 tickSpacing, address pool)
Initialize(uint160 sqrtPriceX96, int24 tick)
Swap(address indexed sender, address indexed recipient, int256 amount0, int256 amount1, uint160 sqrtPriceX96, uint128 liquidity, int24 tick)
Mint(address sender, address indexed owner, int24 indexed tickLower, int24 indexed tickUpper, uint128 amount, uint256 amount0, uint256 amount1)
Burn(address indexed owner, int24 indexed tickLower, int24 indexed tickUpper, uint128 amount, uint256 amount0, uint256 amount1)
Collect(address indexed owner, address recipient, int24 indexed tickLower, int24 indexed tickUpper, uint128 amount0, uint128 amount1)
Flash(address indexed sender, address indexed recipient, uint256 amount0, uint256 amount1, uint256 paid0, uint256 paid1)
IncreaseObservationCardinalityNext(uint16 observationCardinalityNextOld, uint16 observationCardinalityNextNew)
IncreaseLiquidity(uint256 indexed tokenId, uint128 liquidity, uint256 amount0, uint256 amount1)
DecreaseLiquidity(uint256 indexed tokenId, uint128 liquidity, uint256 amount0, uint256 amount1)
Collect(uint256 indexed tokenId, address recipient, uint256 amount0, uint256 amount1)
# Uniswap v4: pool manager
Initialize(bytes32 indexed id, address indexed currency0, address indexed currency1, uint24 fee, int24 tickSpacing, address hooks, uint160 sqrtPriceX96, int24 tick)
Swap(bytes32 indexed id, address indexed sender, int128 amount0, int128 amount1, uint160 sqrtPriceX96, uint128 liquidity, int24 tick, uint24 fee)
ModifyLiquidity(bytes32 indexed id, address indexed sender, int24 tickLower, int24 tickUpper, int256 liquidityDelta, bytes32 salt)
# OpenZeppelin: Ownable, AccessControl, Pausable; ERC-1967 proxies
OwnershipTransferred(address indexed previousOwner, address indexed newOwner)
RoleGranted(bytes32 indexed role, address indexed account, address indexed sender)
RoleRevoked(bytes32 indexed role, address indexed account, address indexed sender)
Paused(address account)
Unpaused(address account)
Upgraded(address indexed implementation)
# ERC-4626
Deposit(address indexed sender, address indexed owner, uint256 assets, uint256 shares)
Withdraw(address indexed sender, address indexed receiver, address indexed owner, uint256 assets, uint256 shares)
# ERC-4337 entry point
UserOperationEvent(bytes32 indexed userOpHash, address indexed sender, address indexed paymaster, uint256 nonce, bool success, uint256 actualGasCost, uint256 actualGasUsed)
# Polygon's native token at 0x…1010
LogTransfer(address indexed token, address indexed from, address indexed to, uint256 amount, uint256 input1, uint256 input2, uint256 output1, uint256 output2)
LogFeeTransfer(address indexed token, address indexed from, address indexed to, uint256 amount, uint256 input1, uint256 input2, uint256 output1, uint256 output2)
"""  # noqa: E501  # one event a line


def well_known() -> list[Event]:
    """Parse the well-known events."""
    return [event_of_text(line) for line in _TEXT.splitlines() if line and not line.startswith("#")]
