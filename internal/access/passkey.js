// Passkeys: the pages work without this script by passwords. An element with data-passkey has a button, and an element for
// what went wrong.

const works = window.isSecureContext && window.PublicKeyCredential && PublicKeyCredential.parseCreationOptionsFromJSON &&
  !/^[\d.]+$|:/.test(location.hostname);

async function post(path, fields) {
  const answer = await fetch(path, {method: "POST", body: new URLSearchParams(fields), headers: {Accept: "application/json"}});
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.detail);
  return said;
}

// ceremony creates a passkey or signs in by one, and returns the page to go to.
async function ceremony({passkey, code, back}) {
  const {publicKey} = await post("/login/passkey/begin", {for: passkey, code: code || ""});
  const credential = passkey === "new"
    ? await navigator.credentials.create({publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey)})
    : await navigator.credentials.get({publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey)});
  const said = await post("/login/passkey/finish", {credential: JSON.stringify(credential), return: back || "/"});
  return said.next;
}

for (const part of document.querySelectorAll("[data-passkey]")) {
  const button = part.querySelector("button");
  const status = part.querySelector("[role=status]");
  if (!works) {
    status.textContent = "Passkeys work by https, at the server's name or at localhost. Here a password is the way.";
    button.remove();
  }
  part.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    status.textContent = "";
    try {
      location.assign(await ceremony(part.dataset));
    } catch (e) {
      status.textContent = e.name === "NotAllowedError" ? "Nothing was done." : e.message;
      button.disabled = false;
    }
  });
}
