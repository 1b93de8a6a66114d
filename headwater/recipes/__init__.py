"""Price recipes: ready-made configurations that compute ticks from trades on a chain.

A recipe is a script and a table of pools or coins. The script begins with the constants CHAIN and POOLS or COINS.
docs/prices.md defines the ticks.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from headwater.errors import SetupError
from headwater.model.stream import CATALOG


@dataclass(frozen=True, slots=True)
class Recipe:
    """A ready-made configuration.

    The stream catalog names the recipes that can read each entity.

    Attributes:
        constant: The name of the JavaScript constant that holds the table of pools or coins.
    """

    name: str
    constant: str

    @property
    def chains(self) -> tuple[str, ...]:
        """The chains for which the recipe can be enabled."""
        return tuple(
            chain.name for chain in CATALOG if any(self.name in entity.price_recipes for entity in chain.entities)
        )

    @property
    def entities(self) -> tuple[str, ...]:
        """The entities that the script can read, the default first."""
        readable = (entity for chain in CATALOG for entity in chain.entities if self.name in entity.price_recipes)
        return tuple(dict.fromkeys(entity.name for entity in readable))

    def configuration(self, chain: str, entity: str, table: Mapping[str, Any], note: str) -> dict[str, Any]:
        """Return the request body that creates the configuration.

        Args:
            table: The entry of each pool or coin, by the address of the pool or the name of the coin.
            note: The description of the configuration.
        """
        source = resources.files(__name__).joinpath(f"{self.name.replace('-', '_')}.js").read_text("utf-8")
        constants = f"const CHAIN = {json.dumps(chain)};\nconst {self.constant} = {_object(table)};\n"
        return {
            "name": f"prices: {self.name} on {chain}",
            "description": note,
            "tags": ["prices"],
            "pipeline_config": {
                "source": {"chain": chain, "entity": entity},
                "transforms": [{"type": "v8", "script": constants + source}],
                "sinks": [{"type": "prices", "name": "ticks"}],
            },
        }


def _object(table: Mapping[str, Any]) -> str:
    """Return the table as a JavaScript object literal with one member per line.

    The object has no prototype, so that a value of a record such as "constructor" finds no inherited member.
    """
    members = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in table.items())
    return f"{{\n  __proto__: null,\n{members}\n}}"


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("uniswap-v3", "POOLS"),
        Recipe("uniswap-v2", "POOLS"),
        Recipe("orca", "POOLS"),
        Recipe("hyperliquid", "COINS"),
    )
}


def find_recipe(name: str, chain: str, entity: str) -> tuple[Recipe, str, str]:
    """Return a recipe with its chain and entity. Raises SetupError.

    Args:
        chain: The name of a chain; empty for the only chain of the recipe.
        entity: The name of an entity; empty for the default entity of the recipe.
    """
    recipe = RECIPES.get(name)
    if recipe is None:
        raise SetupError(f"There is no recipe {name}. Choose from {', '.join(RECIPES)}.")
    chain = chain or (recipe.chains[0] if len(recipe.chains) == 1 else "")
    if chain not in recipe.chains:
        raise SetupError(f"Choose the chain of {name} with --chain: {', '.join(recipe.chains)}.")
    if (entity := entity or recipe.entities[0]) not in recipe.entities:
        raise SetupError(f"{name} can't read {entity}. Choose from {', '.join(recipe.entities)}.")
    return recipe, chain, entity
