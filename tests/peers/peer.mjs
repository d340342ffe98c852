// The lines that peer.c describes, for redlock and its fork on Node.
//
//     node peer.mjs FOLDER
//
// FOLDER has the packages in its node_modules; KIND is `redlock` or `sesame`,
// AT is HOST:PORT[,HOST:PORT...].  A lane is a chain of promises with
// connections of its own.
import { createRequire } from "node:module";
import { appendFileSync, mkdirSync, rmdirSync, statSync, writeFileSync }
  from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const STORM_NS = 300_000_000_000n;
const require = createRequire(process.argv[2] + "/");
const packages = { redlock: "redlock", sesame: "@sesamecare-oss/redlock" };
const Redis = require("ioredis").Redis;

// process.hrtime is CLOCK_MONOTONIC, as in the other peers.
const now = () => process.hrtime.bigint();

// Whether it is measured: then libraries have the settings of their guides.
const settings = process.env.PEER_MEASURED
  ? {} : { retryDelay: 20, retryJitter: 20 };

class Client {
  constructor(kind, at, leaseMs) {
    if (kind instanceof Client) {
      Object.assign(this, kind, { held: new Map() });
      return;
    }
    const found = require(packages[kind]);
    const Redlock = found.Redlock ?? found.default ?? found;
    const addresses = at.split(",");
    this.several = addresses.length > 1;
    // Of several servers one that has died must say so at once, and not in a
    // queue.
    const options = this.several
      ? { enableOfflineQueue: false, maxRetriesPerRequest: 0 }
      : {};
    this.servers = addresses.map((one) => {
      const [host, port] = one.split(":");
      return new Redis(Number(port), host, options).on("error", () => {});
    });
    this.redlock = new Redlock(this.servers, settings);
    // A try that found the key taken is told here, too; it is no error.
    this.redlock.on("error", () => {});
    this.lease = leaseMs;
    this.held = new Map();
  }

  async ready() {
    for (const one of this.servers)
      if (one.status !== "ready")
        await new Promise((go) => one.once("ready", go));
  }

  // With several servers a try keeps what it won until it gives up; so it
  // gives up, and begins again.
  async lock(key, wait) {
    const retryCount = !wait ? 0 : this.several ? 2 : -1;
    for (;;) {
      try {
        const lock = await this.redlock.acquire([key], this.lease,
          { retryCount });
        return this.held.set(key, lock);
      } catch (why) {
        if (retryCount <= 0) throw why;
        await sleep(20 + Math.random() * 60);
      }
    }
  }

  async unlock(key) {
    const lock = this.held.get(key);
    if (!lock) throw new Error("not held here");
    this.held.delete(key);
    await this.redlock.release(lock, { retryCount: 0 });
  }

  async renew(key) {
    this.held.set(key, await this.redlock.extend(this.held.get(key),
      this.lease, { retryCount: 0 }));
  }
}

function answer(lane, word, asked, text = "") {
  const line = String(text).replaceAll("\n", " ");
  process.stdout.write(`${lane.name} ${word} ${asked} ${now()} ${line}\n`);
}

const count = (folder) => {
  try {
    return statSync(folder + "/sections").size;
  } catch {
    return 0; // nobody was inside yet
  }
};

async function section(folder, asked) {
  const got = now();
  let alone = true;
  try {
    mkdirSync(folder + "/inside0");
  } catch {
    alone = false;
  }
  appendFileSync(folder + "/sections", "x");
  await sleep(0.2);
  if (alone) rmdirSync(folder + "/inside0");
  return `${asked} ${got} ${now()} ${alone ? 1 : 2}\n`;
}

async function storm(lane, [key, target, least, folder, log], begun) {
  const lines = [];
  while ((count(folder) < Number(target) || lines.length < Number(least))
         && now() < begun + STORM_NS) {
    const asked = now();
    await lane.client.lock(key, true);
    lines.push(await section(folder, asked));
    try {
      await lane.client.unlock(key);
    } catch (why) {
      // A server that died with a vote for it leaves too few to agree.
      if (!lane.client.several) throw why;
    }
    await sleep(Math.random() * 4);
  }
  writeFileSync(log, lines.join(""));
  answer(lane, "done", begun, lines.length);
}

async function bench(lane, [key, keys, ms, most, holdUs, log], begun) {
  const names = Array.from({ length: Number(keys) },
    (_, i) => (keys === "1" ? key : `${key}-${i}`));
  const end = ms === "0" ? null : begun + BigInt(ms) * 1_000_000n;
  const turns = [];
  while ((end === null || now() < end)
         && (most === "0" || turns.length < Number(most))) {
    const name = names[turns.length % names.length];
    const asked = now();
    await lane.client.lock(name, true);
    const got = now();
    if (holdUs !== "0") await sleep(Number(holdUs) / 1000);
    const gave = now();
    await lane.client.unlock(name);
    turns.push([asked, got, gave, now()]);
  }
  if (log !== "-") {
    writeFileSync(log, turns.map((one) => one.join(" ") + "\n").join(""));
  }
  answer(lane, "done", begun, turns.length);
}

async function attempt(lane, asked, good, bad, what) {
  try {
    await what();
  } catch (why) {
    answer(lane, bad, asked, why);
    return;
  }
  answer(lane, good, asked);
}

async function obey(lane, verb, words) {
  const asked = now();
  const client = lane.client;
  switch (verb) {
    case "open":
      lane.client = new Client(words[0], words[1], Number(words[2]));
      await lane.client.ready();
      return answer(lane, "opened", asked, words[0]);
    case "lock":
      return attempt(lane, asked, "held", "failed",
        () => client.lock(words[0], true));
    case "try":
      return attempt(lane, asked, "held", "busy",
        () => client.lock(words[0], false));
    case "unlock":
      return attempt(lane, asked, "given", "refused",
        () => client.unlock(words[0]));
    case "renew":
      return attempt(lane, asked, "renewed", "refused",
        () => client.renew(words[0]));
    case "storm":
      return storm(lane, words, asked);
    case "join":
      lane.client = new Client(lanes.get(words[0]).client);
      return answer(lane, "joined", asked, words[0]);
    case "bench":
      return bench(lane, words, asked);
    case "close":
      lane.client = undefined;
      return answer(lane, "closed", asked);
    default:
      return answer(lane, "failed", asked, "no such verb: " + verb);
  }
}

const lanes = new Map();
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [name, verb, ...words] = line.split(" ");
  if (verb === "crash") process.kill(process.pid, "SIGKILL");
  if (!lanes.has(name)) lanes.set(name, { name, chain: Promise.resolve() });
  const lane = lanes.get(name);
  lane.chain = lane.chain.then(() => obey(lane, verb, words)).catch(
    (why) => answer(lane, "failed", now(), why));
}
process.exit(0);
