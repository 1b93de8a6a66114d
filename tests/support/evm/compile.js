// Compiles the Solidity file named first; prints {contract: {abi, bytecode}}. Run where solc is installed.
const fs = require("fs");
const solc = require(require.resolve("solc", { paths: [process.cwd()] }));
const input = {
  language: "Solidity",
  sources: { source: { content: fs.readFileSync(process.argv[2], "utf8") } },
  settings: { evmVersion: "paris", outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } } },
};
const output = JSON.parse(solc.compile(JSON.stringify(input)));
const errors = (output.errors || []).filter((error) => error.severity === "error");
if (errors.length) throw new Error(errors.map((error) => error.formattedMessage).join("\n"));
const made = Object.entries(output.contracts.source).map(([name, { abi, evm }]) => [
  name,
  { abi, bytecode: "0x" + evm.bytecode.object },
]);
console.log(JSON.stringify(Object.fromEntries(made)));
