// redlock and its fork in a mixed run; worker.c says what a worker does.
//
//     node worker.mjs KIND PORT KEY TARGET LEAST LOG FOLDER
//
// FOLDER has the packages in its node_modules.
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const MAX_NS = 45_000_000_000n;
const [kind, port, key, target, least, path, folder] = process.argv.slice(2);
const require = createRequire(folder + "/");
const packages = {
  redlock: "redlock",
  "sesame-redlock": "@sesamecare-oss/redlock",
};
const found = require(packages[kind]);
const Redlock = found.Redlock ?? found.default ?? found;
const Redis = require("ioredis").Redis;

const client = new Redis(Number(port), "127.0.0.1");
const redlock = new Redlock([client], {
  retryCount: -1,
  retryDelay: 3,
  retryJitter: 3,
});
// A try that found the key taken is told here, too; it is no error.
redlock.on("error", () => {});

// process.hrtime is CLOCK_MONOTONIC, as in the other workers.
const now = () => process.hrtime.bigint();

async function runSection(log) {
  const asked = now();
  const lock = await redlock.acquire([key], 30000);
  const got = now();
  const inside = await client.incr("inside");
  const total = await client.incr("sections");
  await client.decr("inside");
  const gave = now();
  await lock.release();
  log.push(`${asked} ${got} ${gave} ${inside}\n`);
  return total;
}

await client.ping();
console.log("ready");
const input = createInterface({ input: process.stdin });
await new Promise((go) => input.once("line", go));
input.close();

const log = [];
const end = now() + MAX_NS;
let total = 0;
while ((total < Number(target) || log.length < Number(least)) && now() < end) {
  total = await runSection(log);
  await sleep(Math.random() * 4);
}
writeFileSync(path, log.join(""));
await client.quit();
