// Verify a folder of vectors: node verify.mjs FOLDER. Node's standard library only.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Skipped, answer as answerHash } from "./hashing.mjs";
import * as rules from "./rules.mjs";
import { canonical } from "./wire.mjs";

const ANSWERS = {
  hash: answerHash,
  wire: rules.answerWire,
  envelope: rules.answerEnvelope,
  replay: rules.answerReplay,
  endpoint: rules.answerEndpoint,
};

// What is wrong with a test, or nothing.
function verifyTest(kind, group, { input, expected, result = "valid", requirements = [] }) {
  const [answer, breaks] = ANSWERS[kind](group, input);
  const leftOut = ["fault", "layer", "also", ...(kind === "wire" ? ["form"] : [])];
  const names = Object.keys(expected).filter((name) => !leftOut.includes(name));
  const wanted = canonical(Object.fromEntries(names.map((name) => [name, expected[name]])));
  const got = canonical(Object.fromEntries(names.map((name) => [name, answer[name]])));
  if (got !== wanted) return `expected ${wanted}, got ${got}`;
  const allowed = result === "valid" ? [] : [expected.fault, ...requirements];
  if (breaks.every((id) => allowed.includes(id)) && (result !== "invalid" || breaks.length)) return "";
  return `expected ${expected.fault ?? "no fault"}, got ${[...new Set(breaks)].sort().join(", ") || "none"}`;
}

function verifyFile(listed, data) {
  const count = { passed: 0, failed: 0 };
  const fail = (name, wrong) => {
    console.log(`FAIL ${listed.path} ${name}: ${wrong}`);
    count.failed += 1;
  };
  const digest = createHash("sha256").update(data).digest("hex");
  if (digest !== listed.sha256) fail("sha256", `expected ${listed.sha256}, got ${digest}`);
  const kind = listed.schema.split("/")[2];
  if (!(kind in ANSWERS)) return { ...count, "skipped (sha256 only)": listed.count };
  const file = JSON.parse(data);
  const known = (file.answers ?? []).map((test) => ({ algorithm: test.algorithm, tests: [{ ...test, input: test }] }));
  const tests = (file.groups ?? known).flatMap((group) => group.tests.map((test) => [group, test]));
  const ids = tests.map(([, test]) => test.id);
  if (String(ids) !== String(listed.ids) || ids.length !== listed.count || ids.length !== file.count) {
    fail("ids", "expected the tests that the manifest lists, got others");
  }
  for (const [group, test] of tests) {
    try {
      const wrong = verifyTest(kind, group, test);
      if (wrong) fail(test.id, wrong);
      else count.passed += 1;
    } catch (error) {
      const skipped = `skipped (${error.message})`;
      if (error instanceof Skipped) count[skipped] = (count[skipped] ?? 0) + 1;
      else fail(test.id, `expected an answer, got ${error}`);
    }
  }
  return count;
}

const folder = process.argv[2];
let failures = 0;
for (const listed of JSON.parse(readFileSync(join(folder, "MANIFEST.json"))).files) {
  const count = verifyFile(listed, readFileSync(join(folder, listed.path)));
  const words = Object.entries(count).map(([what, number]) => `${number} ${what}`);
  console.log(`${listed.path}: ${words.join(", ")}`);
  failures += count.failed;
}
process.exit(failures ? 1 : 0);
