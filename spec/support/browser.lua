--- Drives Chromium without a window, through ChromeDriver (W3C WebDriver over HTTP):
---
---     local b <close> = browser.start()
---     b:open "/tmp/page.html"
---     b:run "return document.title"           -- JavaScript in the page
---     b:press "/"  b:type "heat"  b:click "#close"
---     b:wait "return document.querySelector('.row') !== null"
---     b:errors()                              -- what the console complained of since then
---
--- One browser serves all tests of a file; it ends with its `<close>` scope.

local json = require "ponder.json"
local calls = require "calls"
local net = require "ponder.core.net"

local browser = {}

local LIMIT = 900 -- seconds after which the driver ends, even if this process is gone
local PATIENCE_MS = 60000

--- Names of keys as WebDriver writes them.
local KEYS = { Enter = 0xE007, Escape = 0xE00C, Space = 0xE00D, End = 0xE010, Home = 0xE011,
    ArrowLeft = 0xE012, ArrowUp = 0xE013, ArrowRight = 0xE014, ArrowDown = 0xE015, Tab = 0xE004,
    Shift = 0xE008 }

---@class spec.Browser
---@field pid integer of the driver
local Browser = {}
Browser.__index = Browser

local function request(self, method, path, body)
    self.pump:submit { url = self.url .. path, method = method, timeout_ms = PATIENCE_MS,
        max_body_bytes = 1 << 28, headers = { ["content-type"] = "application/json" },
        body = method == "POST" and json.encode(body or json.object()) or nil }
    local batch = {}
    repeat
        local n = calls.poll(self.pump, PATIENCE_MS, batch)
    until n > 0
    local reply = assert(json.decode(assert(batch[3].body, batch[3].error),
        { max_bytes = 1 << 28 }))
    local value = reply.value
    if type(value) == "table" and value.error then
        error(("%s %s: %s"):format(method, path, value.message), 3)
    end
    return value
end

local function options(opts)
    return { capabilities = { alwaysMatch = { ["goog:loggingPrefs"] = { browser = "ALL" },
        ["goog:chromeOptions"] = { args = { "--headless=new", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--hide-scrollbars",
            ("--window-size=%d,%d"):format(opts.width or 1280, opts.height or 800) } } } } }
end

---Starts a browser.
---@param opts? {width: integer?, height: integer?} of the window, in pixels
---@return spec.Browser
function browser.start(opts)
    local pipe = assert(io.popen(("echo $$; exec timeout %d chromedriver "
        .. "--port=0 2>&1"):format(LIMIT), "r"))
    local pid, port = math.tointeger(tonumber(pipe:read "l")), nil
    for line in pipe:lines() do
        port = line:match "successfully on port (%d+)"
        if port then
            break
        end
    end
    assert(port, "chromedriver did not start: is chromium-driver installed?")
    local self = setmetatable({ pid = pid, pipe = pipe, pump = assert(net.open { proxy = "" }),
        url = "http://127.0.0.1:" .. port }, Browser)
    local session = request(self, "POST", "/session", options(opts or {}))
    self.url = self.url .. "/session/" .. session.sessionId
    return self
end

---Opens a file, or a page of a server, and waits until it is loaded.
---@param place string absolute path, or URL
function Browser:open(place)
    request(self, "POST", "/url", { url = place:find "^/" and "file://" .. place or place })
end

local function execute(self, how, code, ...)
    local value = request(self, "POST", "/execute/" .. how,
        { script = code, args = json.array { ... } })
    return value ~= json.null and value or nil
end

---Runs the body of a JavaScript function; gives what it returns, nil for null.
---@param code string
---@param ... any its arguments, as JSON
---@return any
function Browser:run(code, ...)
    return execute(self, "sync", code, ...)
end

---The same for code that calls its last argument when it is done.
---@param code string
---@return any
function Browser:run_async(code, ...)
    return execute(self, "async", code, ...)
end

---Runs code again and again until what it returns is true.
---@param code string
---@return any
function Browser:wait(code, ...)
    for _ = 1, 400 do
        local value = self:run(code, ...)
        if value then
            return value
        end
        os.execute "sleep 0.02"
    end
    error("waited without success for: " .. code, 2)
end

local function act(self, source)
    request(self, "POST", "/actions", { actions = json.array { source } })
end

---Presses keys one after the other, wherever the focus is.
---@param ... string characters, or names: "Enter", "ArrowDown"
function Browser:press(...)
    local steps = json.array()
    for _, key in ipairs { ... } do
        local value = KEYS[key] and utf8.char(KEYS[key]) or key
        steps[#steps + 1] = { type = "keyDown", value = value }
        steps[#steps + 1] = { type = "keyUp", value = value }
    end
    act(self, { type = "key", id = "keys", actions = steps })
end

---Types a text.
---@param text string
function Browser:type(text)
    local characters = {}
    for _, code in utf8.codes(text) do
        characters[#characters + 1] = utf8.char(code)
    end
    self:press(table.unpack(characters))
end

---What a page cuts off or draws over something else, in the bars of its controls and figures.
---@return string[]
function Browser:cut()
    return self:run [[
        const bad = [];
        const root = document.documentElement;
        if (root.scrollWidth > innerWidth) bad.push(`the page is ${root.scrollWidth} wide`);
        for (const box of document.querySelectorAll('.top, .top > *, .pane-head, .pane-head > *,'
            + '.filter, .axes')) {
            const shown = [...box.children].filter((one) => one.getClientRects().length > 0
                && one.checkVisibility({ visibilityProperty: true }));
            const rects = shown.map((one) => one.getBoundingClientRect());
            const around = box.getBoundingClientRect();
            rects.forEach((a, i) => {
                if (a.left < around.left - 1 || a.right > around.right + 1
                    || a.bottom > around.bottom + 1) bad.push(`cut: ${shown[i].textContent}`);
                for (let k = i + 1; k < rects.length; k++) {
                    const b = rects[k];
                    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1
                        && b.top < a.bottom - 1) bad.push(`over: ${shown[i].textContent}`);
                }
            });
        }
        return bad; ]]
end

---Clicks at a place of the window.
---@param x integer
---@param y integer
function Browser:click_at(x, y)
    act(self, { type = "pointer", id = "mouse", parameters = { pointerType = "mouse" },
        actions = json.array { { type = "pointerMove", duration = 0, x = x, y = y },
            { type = "pointerDown", button = 0 }, { type = "pointerUp", button = 0 } } })
end

---Clicks in the middle of the element that a selector finds first.
---@param selector string
function Browser:click(selector)
    local place = self:run([[
        const element = document.querySelector(arguments[0]);
        element?.scrollIntoView({ block: 'nearest' });
        const box = element?.getBoundingClientRect();
        return box ? [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)] : null;
    ]], selector)
    assert(place, "no element: " .. selector)
    self:click_at(place[1], place[2])
end

---Gives the focus to the element that a selector finds first.
---@param selector string
function Browser:focus(selector)
    self:run("document.querySelector(arguments[0]).focus()", selector)
end

---Sets the value of a field, as if a person had.
---@param selector string
---@param value string
function Browser:fill(selector, value)
    self:run([[const field = document.querySelector(arguments[0]);
        field.value = arguments[1];
        field.dispatchEvent(new Event('input', { bubbles: true }));]], selector, value)
end

---The text of the element that a selector finds first; nil: there is none.
---@param selector string
---@return string?
function Browser:text(selector)
    return self:run("return document.querySelector(arguments[0])?.textContent ?? null", selector)
end

-- A command of the developer tools' protocol.
local function tell(self, command, parameters)
    return request(self, "POST", "/goog/cdp/execute", { cmd = command, params = parameters })
end

---Makes the system look dark or light to pages.
---@param scheme "dark"|"light"
function Browser:prefer(scheme)
    tell(self, "Emulation.setEmulatedMedia",
        { features = json.array { { name = "prefers-color-scheme", value = scheme } } })
end

---Gives the page this size, whatever the window's.
---@param width integer
---@param height integer
function Browser:resize(width, height)
    tell(self, "Emulation.setDeviceMetricsOverride",
        { width = width, height = height, deviceScaleFactor = 1, mobile = false })
end

---What the console complained of since the last time: errors and warnings.
---@return string[]
function Browser:errors()
    local list = {}
    for i, entry in ipairs(request(self, "POST", "/se/log", { type = "browser" })) do
        list[i] = entry.level .. ": " .. entry.message
    end
    return list
end

---Writes a picture of the page.
---@param path string of a PNG file
function Browser:screenshot(path)
    local coded = assert(io.open(path .. ".base64", "wb"))
    coded:write(request(self, "GET", "/screenshot"))
    coded:close()
    assert(os.execute(("base64 -d '%s.base64' >'%s' && rm '%s.base64'"):format(path, path, path)))
end

---Ends the browser.
function Browser:close()
    if self.pipe then
        pcall(request, self, "DELETE", "")
        self.pump:close()
        os.execute("kill " .. self.pid)
        self.pipe:close()
        self.pipe = nil
    end
end
Browser.__close = Browser.close
Browser.__gc = Browser.close

return browser
