// redlock and its fork in a mixed run; worker.c says what a worker does.
//
//     node worker.mjs KIND PORT[,PORT...] KEY TARGET LEAST LOG FOLDER
//
// FOLDER has the packages in its node_modules.
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const MAX_NS = BigInt(process.env.PEERS_SECONDS ?? 45) * 1_000_000_000n;
const [kind, port, key, target, least, path, folder] = process.argv.slice(2);
const require = createRequire(folder + "/");
const packages = {
  redlock: "redlock",
  "sesame-redlock": "@sesamecare-oss/redlock",
};
const found = require(packages[kind]);
const Redlock = found.Redlock ?? found.default ?? found;
const Redis = require("ioredis").Redis;

const ports = port.split(",");
const clients = ports.map((one) => {
  // A server that has died must say so at once, and not in a queue.
  const options = ports.length > 1
    ? { enableOfflineQueue: false, maxRetriesPerRequest: 0 }
    : {};
  const made = new Redis(Number(one), "127.0.0.1", options);
  made.on("error", () => {});
  return made;
});
const client = clients[clients.length - 1]; // the witness, too
// With several servers a try keeps what it won until it gives up: so it does.
const several = ports.length > 1;
const redlock = new Redlock(clients, {
  retryCount: several ? 2 : -1,
  retryDelay: several ? 30 : 3,
  retryJitter: several ? 30 : 3,
});
// A try that found the key taken is told here, too; it is no error.
redlock.on("error", () => {});

// process.hrtime is CLOCK_MONOTONIC, as in the other workers.
const now = () => process.hrtime.bigint();

async function acquire() {
  for (;;) {
    try {
      return await redlock.acquire([key], several ? 5000 : 30000);
    } catch (why) {
      if (!several) throw why;
      await sleep(20 + Math.random() * 60);
    }
  }
}

async function release(lock) {
  try {
    await lock.release();
  } catch (why) {
    // A server that died with a vote for it leaves too few to agree.
    if (!several) throw why;
  }
}

async function runSection(log) {
  const asked = now();
  const lock = await acquire();
  const got = now();
  const inside = await client.incr("inside");
  const total = await client.incr("sections");
  await client.decr("inside");
  const gave = now();
  await release(lock);
  log.push(`${asked} ${got} ${gave} ${inside}\n`);
  return total;
}

for (const one of clients)
  if (one.status !== "ready") await new Promise((go) => one.once("ready", go));
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
for (const one of clients) one.disconnect();
