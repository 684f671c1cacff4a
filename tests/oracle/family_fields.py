"""Which fields of config.json each family's own code reads: writes data/families/fields.json.

python family_fields.py ../../src/model/families.cpp ../../data/families/fields.json [--check]

Read from transformers' files (5.23.0), not run: the modelling file, what the configuration class
computes with, the names that its attribute_map gives others, and what the shared functions read
that the modelling file names (masks; generate's own aside). A family that transformers lacks has no
row. Of all those names only those are written that src/model/field_effects.cpp knows to change
shapes or ops: what a family does not read cannot change its step.
"""
import argparse
import ast
import importlib.metadata
import json
import pathlib
import re
import sys

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

ROOT = pathlib.Path(transformers.__file__).parent
VERSION = "5.23.0"
# generate() builds these masks and caches; a training step does not.
OF_GENERATION = {"create_masks_for_generate"}


def config_reads(tree):
    """Names N of config.N, self.config.N, x_config.N and getattr(config, "N", …)."""
    def is_config(node):
        name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
        return name == "config" or name.endswith("_config")

    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_config(node.value):
            yield node.attr
        if (isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr")
                and is_config(node.args[0]) and isinstance(node.args[1], ast.Constant)):
            yield node.args[1].value


def computed_with(tree):
    """Names of self.N inside of the configuration's methods, and of keywords that they pop."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
                    and getattr(node.value, "id", "") == "self"):
                yield node.attr
            if (isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("pop", "get")
                    and node.args and isinstance(node.args[0], ast.Constant)):
                yield node.args[0].value
            if (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr"
                    and isinstance(node.args[1], ast.Constant)):
                yield node.args[1].value


def aliases(tree):
    """attribute_map: the names by which a file may say a field."""
    for node in ast.walk(tree):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if (isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict)
                and any(getattr(t, "id", "") == "attribute_map" for t in targets)):
            for key in node.value.keys:
                yield key.value


def shared(path):
    return {f.name: set(config_reads(f)) for f in ast.parse(path.read_text()).body
            if isinstance(f, ast.FunctionDef) and f.name not in OF_GENERATION}


def reads_of(family, functions, always):
    folder = CONFIG_MAPPING_NAMES.get(family)
    path = None
    for name in (family, family.removesuffix("_text"), family.removesuffix("_moe")):
        if (ROOT / "models" / name / f"configuration_{name}.py").exists():
            path = ROOT / "models" / name
            break
    if path is None or folder is None:
        return None
    configuration = ast.parse((path / f"configuration_{path.name}.py").read_text())
    modelling = (path / f"modeling_{path.name}.py").read_text()
    names = set(config_reads(ast.parse(modelling))) | set(computed_with(configuration))
    names |= set(aliases(configuration)) | always
    for function, read in functions.items():
        if re.search(rf"\b{function}\b", modelling):
            names |= read
    return names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("families", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if importlib.metadata.version("transformers") != VERSION:
        print(f"transformers {importlib.metadata.version('transformers')}, the table is of {VERSION}")
        return 0
    effects = (arguments.families.parent / "field_effects.cpp").read_text()
    block = effects[effects.index("constexpr Group structure[]"):effects.index("make_table")]
    structure = set(re.findall(r"\b[a-z_0-9]+\b", " ".join(re.findall(r'"([a-z_0-9 ]+)"', block))))
    functions = shared(ROOT / "masking_utils.py")
    # What every model's base class reads.
    # RotaryEmbeddingConfigMixin, which every rotary family's configuration is. It looks at layer_types
    # to sort rope_parameters by them, which changes no shape.
    rotary = ast.parse((ROOT / "modeling_rope_utils.py").read_text())
    always = set(config_reads(rotary)) | set(computed_with(rotary)) - {"layer_types"}
    print("every family:", *sorted(always & structure))
    families = re.findall(r'\.name = "([a-z0-9_]+)"', arguments.families.read_text())
    rows = {}
    for family in sorted(set(families)):
        names = reads_of(family, functions, always)
        if names is not None:
            rows[family] = " ".join(sorted(names & structure))
    text = json.dumps({"schema": 1, "version": f"transformers {VERSION}",
                       "source": "tests/oracle/family_fields.py read it from the package",
                       "reads": rows}, indent=1) + "\n"
    print(f"{len(rows)} families of {len(set(families))}: not in transformers "
          f"{sorted(set(families) - set(rows))}")
    if not arguments.check:
        arguments.output.parent.mkdir(exist_ok=True)
        arguments.output.write_text(text)
        return 0
    same = arguments.output.read_text() == text
    print("same" if same else f"{arguments.output} differs")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
