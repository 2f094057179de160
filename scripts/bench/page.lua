-- Measures the page of a run with 5,000 nodes and 5,000 calls of 2 KB in headless Chromium, without
-- a graphics card: the time from opening the file to the first drawing, and the frame times while
-- mouse events move and zoom the drawing and the timeline.

local browser = require "browser"
local page_data = require "ponder.show.export.page_data"
local measure = require "measure"
local reader = require "ponder.run.log.reader"
local sample_log = require "sample_log"
local schema = require "ponder.run.log.schema"
local shell = require "shell"
local store = require "ponder.core.store"

local NODES, RUNS, PROMPT_BYTES = 5000, 5, 2000

-- 60 frames of zooming in and out, and 60 of moving, with one event each; returns the milliseconds
-- between frames.
local FRAMES = [[
    const canvas = document.getElementById(arguments[0]), done = arguments[1];
    const box = canvas.getBoundingClientRect();
    const at = (x, y) => ({ clientX: box.left + x, clientY: box.top + y, bubbles: true,
        cancelable: true, pointerId: 1, button: 0 });
    const wheel = (deltaY) => canvas.dispatchEvent(
        new WheelEvent('wheel', { ...at(box.width * 0.8, box.height / 2), deltaY }));
    const pointer = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, at(x, y)));
    const times = [];
    canvas.setPointerCapture = () => {};
    let frame = 0, last = 0;
    const step = (now) => {
        if (frame > 0) times.push(now - last);
        last = now;
        if (frame === 120) return done(times);
        if (frame < 60) wheel(frame < 40 ? -60 : 60);
        else {
            if (frame === 60) pointer('pointerdown', box.width / 2, box.height / 2);
            const turn = (frame - 60) / 60 * 2 * Math.PI;
            pointer('pointermove', box.width / 2 + 300 * Math.sin(turn),
                box.height / 2 + 200 * Math.sin(2 * turn));
            if (frame === 119) pointer('pointerup', box.width / 2, box.height / 2);
        }
        frame += 1;
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
]]

local function percentile(list, part)
    local sorted = table.move(list, 1, #list, 1, {})
    table.sort(sorted)
    return sorted[math.max(1, math.ceil(#sorted * part))]
end

local dir <close> = shell.directory()
local log_path, page_path = dir.path .. "/many.db", dir.path .. "/many.html"
sample_log.fill(log_path, NODES)
do -- distinct prompts, as long as real ones
    local db = assert(store.open(log_path, { mode = "write",
        application_id = schema.APPLICATION_ID, version = schema.VERSION }))
    assert(db:execute(("UPDATE calls SET request = replace(request, 'Question', "
        .. "substr(hex(randomblob(%d)), 1, %d) || ' Question')"):format(PROMPT_BYTES // 2 + 1,
        PROMPT_BYTES)))
    db:close()
end
local log = assert(reader.open(log_path))
local file = assert(io.open(page_path, "wb"))
local writing = measure.cpu(function() page_data.write(log, file, {}) end)
print(("page         %d nodes, %d calls, %.1f MB, written in %.0f ms"):format(NODES, NODES,
    file:seek "end" / 1e6, writing * 1000))
file:close()
log:close()

local b <close> = browser.start { width = 1440, height = 900 }
local first, p95 = {}, { tree = {}, time = {} }
for i = 1, RUNS do
    b:open(page_path)
    first[i] = b:wait [[
        const painted = performance.getEntriesByName('first-contentful-paint')[0];
        const drawn = performance.getEntriesByName('drawn')[0];
        return painted && Math.max(painted.startTime, drawn.startTime); ]]
    for canvas, figures in pairs(p95) do
        local times = b:run_async(FRAMES, canvas)
        assert(#times == 120)
        figures[i] = percentile(times, 0.95)
    end
end
measure.report("first drawing, ms", measure.median(first), "<=", 1000)
measure.report("drawing, p95 of 120 frames, ms", measure.median(p95.tree), "<=", 50)
measure.report("timeline, p95 of 120 frames, ms", measure.median(p95.time), "<=", 50)
