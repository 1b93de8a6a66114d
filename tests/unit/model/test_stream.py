"""The stream catalog."""

import json

import jsonschema_rs
import pytest

from headwater.model.stream import CATALOG, Chain, Entity, find_chain
from headwater.recipes import RECIPES

EVM = {"log", "decoded_log", "erc20_token_transfer", "erc721_token_transfer", "erc1155_token_transfer"}
CHAINS = [
    ("polygon", "pubsub", EVM),
    ("base", "pubsub", EVM),
    ("solana", "pubsub", {"nonvoting_transaction"}),
    ("hyperliquid", "kafka", {"block", "trade", "fill", "order", "misc_event"}),
]
ENTITIES = [(chain, entity) for chain in CATALOG for entity in chain.entities]


class TestCatalog:
    @pytest.mark.parametrize(("chain", "source_type", "entities"), CHAINS)
    def test_has_what_the_interface_lists(self, chain: str, source_type: str, entities: set[str]) -> None:
        found = find_chain(chain)
        assert found is not None
        assert found.source_type == source_type
        assert {entity.name for entity in found.entities} == entities

    def test_has_nothing_else(self) -> None:
        assert [chain.name for chain in CATALOG] == [name for name, _, _ in CHAINS]
        assert find_chain("Base") is None

    @pytest.mark.parametrize("chain", CATALOG)
    def test_evm_chains_have_a_chain_id_of_their_own(self, chain: Chain) -> None:
        is_evm = {entity.name for entity in chain.entities} == EVM
        assert (chain.chain_id is not None) == is_evm
        assert [one.name for one in CATALOG if is_evm and one.chain_id == chain.chain_id] == [chain.name] * is_evm

    @pytest.mark.parametrize(("chain", "entity"), ENTITIES)
    def test_examples_are_what_the_schema_says(self, chain: Chain, entity: Entity) -> None:
        jsonschema_rs.Draft202012Validator(entity.json_schema).validate(entity.example)
        assert entity.example.keys() == entity.fields.keys()

    def test_price_recipes_are_there(self) -> None:
        assert {name for _, entity in ENTITIES for name in entity.price_recipes} == RECIPES.keys()

    @pytest.mark.parametrize(("chain", "entity"), ENTITIES)
    def test_examples_carry_their_event_time(self, chain: Chain, entity: Entity) -> None:
        assert entity.event_time_field in entity.example

    @pytest.mark.parametrize(("chain", "entity"), ENTITIES)
    def test_addresses_in_examples_are_lower_case(self, chain: Chain, entity: Entity) -> None:
        words = [word for word in json.dumps(entity.example).split('"') if word.startswith("0x")]
        assert words == [word.lower() for word in words]
