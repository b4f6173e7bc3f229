import * as vscode from "vscode";
import { LanguageClient, LanguageClientOptions, ServerOptions } from "vscode-languageclient/node";

let client: LanguageClient | undefined;

// activate starts the language server when a YAML or JSON document or a Helm template is opened.
export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("espalier.restart", restart),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("espalier.path") || event.affectsConfiguration("espalier.arguments")) {
        await restart();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
  );
  await start();
}

// deactivate ends the language server.
export function deactivate(): Promise<void> | undefined {
  return client?.stop();
}

async function restart(): Promise<void> {
  const running = client;
  client = undefined;
  await running?.stop();
  await start();
}

async function start(): Promise<void> {
  const settings = vscode.workspace.getConfiguration("espalier");
  const args = ["lsp", ...settings.get<string[]>("arguments", [])];
  if (!vscode.workspace.isTrusted) {
    args.push("--helm=read"); // the charts of a folder decide what helm does; the last value of a flag counts
  }
  const server: ServerOptions = { command: settings.get<string>("path", "espalier"), args };
  const options: LanguageClientOptions = {
    documentSelector: [
      { scheme: "file", language: "yaml" },
      { scheme: "file", language: "json" },
      { scheme: "file", language: "helm" },
      { scheme: "untitled", language: "yaml" },
    ],
  };
  client = new LanguageClient("espalier", "Espalier", server, options);
  try {
    await client.start();
  } catch (err) {
    void vscode.window.showErrorMessage(
      `Espalier: ${server.command} lsp does not start: install espalier, or set espalier.path. ${err}`,
    );
  }
}
