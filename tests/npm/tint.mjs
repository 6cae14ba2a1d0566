// Checks WGSL, a JSON object of texts by name, by Tint, the compiler of Dawn and Chrome; prints what failed, by name.
// Dawn runs on its null backend, which has every feature and no GPU.
import { readFileSync } from "node:fs";
import { create } from "webgpu";

const gpu = create(["backend=null", "enable-dawn-features=allow_unsafe_apis"]); // kept: all else dies with it
const adapter = await gpu.requestAdapter();
const device = await adapter.requestDevice({ requiredFeatures: [...adapter.features] });

async function failure(text) {
    device.pushErrorScope("validation");
    const { messages } = await device.createShaderModule({ code: text }).getCompilationInfo();
    await device.popErrorScope();
    return messages.filter((m) => m.type === "error").map((m) => `${m.lineNum}:${m.linePos} ${m.message}`).join("\n");
}

const found = {};
for (const [name, text] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) found[name] = await failure(text);
process.stdout.write(JSON.stringify(found), () => process.exit(0)); // else Dawn's threads would keep it
