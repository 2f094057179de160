-- A model for scripts/strategies/mixture.lua: each proposer knows one digit; whoever sees all
-- answers can put them together.

return function(request)
    local text, digits = request.messages[2].content, {}
    for digit in text:gmatch "digit (%d)" do digits[#digits + 1] = digit end
    table.sort(digits)
    local reply = "digit " .. request.sample
    if request.messages[1].content:find "^You get several" then
        reply = "Answer: " .. table.concat(digits)
    elseif digits[1] then
        reply = "I agree: digit " .. digits[request.sample]
    end
    return { text = reply, usage = { input_tokens = 100, output_tokens = 10 } }
end
